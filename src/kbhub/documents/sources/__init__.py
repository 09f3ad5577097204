"""The formats of files: Markdown and plain text, PDF, session logs of coding agents."""
