"""The SQL files of the toolkit, installed as `hotline_analysis.queries`; `hotline_analysis.catalog` reads them."""
