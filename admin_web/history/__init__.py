"""What changed, from the audit log: in readable fields, with links, and as versions of a job."""
