"""Sessions and their turns: what every face (HTTP, chat platforms, terminal) runs on. Knows no face."""
