"""What changed, from the audit log: as readable fields with links, and as versions of a job."""
