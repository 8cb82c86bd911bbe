"""Reports to text, SVG and HTML. A report becomes blocks (`blocks.py`); plain, terminal and HTML writers lay them out."""
