import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions


def run(argv=None):
    with beam.Pipeline(options=PipelineOptions(argv)) as p:
        (
            p
            | "read" >> beam.io.ReadFromText("gs://in/*.csv")
            | "parse" >> beam.Map(lambda line: dict(zip(("id", "v"), line.split(","))))
            | "write" >> beam.io.WriteToBigQuery(
                "acme:raw.lines",
                schema="id:STRING,v:STRING",
                write_disposition=beam.io.BigQueryDisposition.WRITE_APPEND,
                create_disposition=beam.io.BigQueryDisposition.CREATE_IF_NEEDED,
            )
        )
