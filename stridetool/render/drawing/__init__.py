"""Pictures as SVG: shapes, and what is drawn with them. Text in, text out; no script, no font, no network."""
