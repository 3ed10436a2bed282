"""What can be set: `schema` declares every option once, `load` reads recipes and the command line."""
