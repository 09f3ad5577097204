"""Results as HTML: templates for the page and the apps of clients, documents made safe, and their static files."""
