"""From declared inputs to rows that may be published: computed, checked, audited."""
