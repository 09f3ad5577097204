"""Pairs of sentences to judge likeness by: what `kbhub.memory.changes` says of them is measured with these."""

from __future__ import annotations

SAME_MEANING = [
    ("Deploys run from the main branch at nine in the morning", "Deployments happen at 9 am from main"),
    ("The staging database is reset every night", "Every night the staging database gets reset"),
    ("Use pnpm instead of npm in this repository", "In this repo use pnpm, not npm"),
    ("Integration tests need Docker to be running", "Docker must be running for the integration tests"),
    ("The API returns dates in UTC", "Dates returned by the API are in UTC"),
    ("Anna owns the billing service", "The billing service is owned by Anna"),
    ("Never commit generated files", "Generated files must not be committed"),
    ("Run make lint before pushing", "Before you push, run make lint"),
    ("The cache is invalidated on every write", "Every write invalidates the cache"),
    ("We chose SQLite because it needs no server", "SQLite was chosen because no server is needed"),
    ("Feature flags live in config/flags.yaml", "The feature flags are in config/flags.yaml"),
    ("Releases are tagged with the date", "The date is the tag of a release"),
    ("The user prefers short commit messages", "Short commit messages are preferred by the user"),
    ("Retry failed uploads three times", "Uploads that fail are retried three times"),
    ("The login page is slow because of the avatar query", "Avatar query makes the login page slow"),
    ("Migrations must be backwards compatible", "All migrations have to be backward compatible"),
    ("Logs are kept for thirty days", "We keep logs for thirty days"),
    ("The parser drops comments", "Comments are dropped by the parser"),
    ("Use tabs for indentation in Go files", "Go files are indented with tabs"),
    ("Ask before deleting branches", "Before deleting a branch, ask"),
]
"""Two ways to say one thing."""

CONTRADICTING = [
    ("The timeout of the gateway is 30 seconds", "The timeout of the gateway is 60 seconds"),
    ("Always squash commits before merging", "Never squash commits before merging"),
    ("Use pnpm, not npm", "Use npm, not pnpm"),
    ("The staging database is Postgres", "The staging database is MySQL"),
    ("Deploys run from main", "Deploys run from release branches"),
    ("The cache is enabled in production", "The cache is disabled in production"),
    ("Anna owns the billing service", "Boris owns the billing service"),
    ("Run migrations before the deploy", "Run migrations after the deploy"),
    ("The API returns dates in UTC", "The API returns dates in local time"),
    ("Tests need Docker", "Tests do not need Docker"),
    ("The service listens on port 8080", "The service listens on port 9090"),
    ("Feature flags live in config/flags.yaml", "Feature flags live in settings/flags.toml"),
    ("Logs are kept for thirty days", "Logs are kept for ninety days"),
    ("The user prefers short commit messages", "The user prefers detailed commit messages"),
    ("Use tabs for indentation in Go files", "Use spaces for indentation in Go files"),
    ("The default mode is hybrid", "The default mode is keyword"),
    ("Retry failed uploads three times", "Do not retry failed uploads"),
    ("Node 18 is required", "Node 20 is required"),
    ("The nightly job runs at 2 am", "The nightly job runs at 4 am"),
    ("Errors are logged to Sentry", "Errors are logged to Datadog"),
]
"""Two things of which one at most is true."""

OTHER_RESPECT = [
    ("The timeout of the gateway is 30 seconds", "The gateway needs an API key"),
    ("Always squash commits before merging", "Commits need a sign-off line"),
    ("Use pnpm, not npm", "The package is published every Friday"),
    ("The staging database is Postgres", "The staging server is in Frankfurt"),
    ("Deploys run from main", "Rollbacks take five minutes"),
    ("The cache is enabled in production", "The cache lives in Redis"),
    ("Anna owns the billing service", "Billing runs at midnight"),
    ("Run migrations before the deploy", "Migrations live in db/migrations"),
    ("The API returns dates in UTC", "The API is versioned by a header"),
    ("Tests need Docker", "Tests are named after the module"),
    ("The service listens on port 8080", "The service is written in Go"),
    ("Logs are kept for thirty days", "Logs are JSON lines"),
    ("The user prefers short commit messages", "The user works in Berlin"),
    ("Retry failed uploads three times", "Uploads are limited to 10 MB"),
    ("The default mode is hybrid", "The default limit is five"),
    ("Errors are logged to Sentry", "Errors have a code"),
]
"""Two things about one subject that are both true."""
