"""Cited answers, written by the client's model, by Ollama, or by kbhub from the documents' own sentences."""
