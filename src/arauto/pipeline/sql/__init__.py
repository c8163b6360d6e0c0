"""Ad-hoc SQL over the lake: one read-only query, over the views of one hub, within limits."""
