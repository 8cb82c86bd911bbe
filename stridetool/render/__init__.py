"""Reports to text, SVG and HTML. A report becomes blocks (`blocks.py`), and a writer lays them out."""
