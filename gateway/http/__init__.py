"""The OpenAI-style HTTP face. Parses, asks the sessions, writes answers down; decides nothing about agents."""
