"""Results as HTML: templates for pages and client apps, sanitised documents, and static files."""
