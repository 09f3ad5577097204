"""Create, change, delete, restore and rename documents, leaving everything else in them untouched; and audits."""
