"""The one report model: plain structs, their JSON both ways and its schema, all from one definition."""
