"""The tables of the documentation, by subject; `docs/make_figures.py` puts them where they belong."""
