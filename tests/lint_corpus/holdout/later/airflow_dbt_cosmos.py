from datetime import datetime

from airflow.decorators import dag
from cosmos import DbtDag, ProfileConfig, ProjectConfig

profile = ProfileConfig(profile_name="shop", target_name="prod", profiles_yml_filepath="/opt/dbt/profiles.yml")

shop = DbtDag(
    project_config=ProjectConfig("/opt/dbt/shop"),
    profile_config=profile,
    operator_args={"vars": {"day": "{{ ds }}"}},
    schedule="@daily",
    start_date=datetime(2024, 1, 1),
    catchup=False,
    dag_id="dbt_shop",
    default_args={"retries": 2},
)
