"""Raw tables of one rank → derived tables."""
