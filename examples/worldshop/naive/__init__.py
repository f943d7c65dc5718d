"""The jobs as people write them first. Each names the incident it causes. Beside each of them, in pipelines/, is the
same job declared with twice."""
