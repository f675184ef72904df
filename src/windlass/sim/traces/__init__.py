"""Public and own traces: files of nodes, pods and jobs, read into the model's words."""
