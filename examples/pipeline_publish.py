"""Spark both ways: rows become messages, and the journal becomes a stream whose results are published.

export ARAUTO_ADMIN__TOKEN=choose-one-of-32-characters-or-more
arauto serve --config examples/config.yaml     (in another terminal, with the same variable)
python examples/pipeline_publish.py            (needs: pip install 'arauto[pipeline]')
"""

import os
import tempfile
from pathlib import Path

import httpx
from pyspark.sql import SparkSession

from arauto.pipeline.session import open_spark
from arauto.pipeline.source.datasource import ArautoDataSource

ADMIN = os.environ.get("ARAUTO_ADMIN_URL", "http://127.0.0.1:4040")
TOKEN = os.environ["ARAUTO_ADMIN__TOKEN"]
DATA = Path(os.environ.get("ARAUTO_STORAGE__DATA_DIR", "arauto-data")).resolve()
JOURNAL = f"sqlite:///{DATA}/arauto.db"
TO_SHOP = {"url": ADMIN, "token": TOKEN, "hub": "shop", "contentType": "application/json"}


def keep_messages() -> None:
    """The journal holds messages of channels whose rules store them."""
    with httpx.Client(base_url=ADMIN, headers={"Authorization": f"Bearer {TOKEN}"}) as admin:
        admin.put("/v1/hubs/shop", json={}).raise_for_status()
        admin.put("/v1/hubs/shop/rules/kept", json={"store": "all"}).raise_for_status()
        for name in ("orders", "large"):
            where = f"/v1/hubs/shop/namespaces/{name}"
            admin.put(where, json={"rules": "kept"}).raise_for_status()


def publish_orders(spark: SparkSession) -> None:
    """A frame's rows become messages. Running this again publishes nothing: the ids are the same."""
    orders = spark.createDataFrame(
        [("lisbon", 1, 12.5), ("porto", 2, 240.0), ("lisbon", 3, 180.0)],
        "shop string, number int, total double",
    )
    orders.selectExpr(
        "concat('orders:', shop) as channel",
        "to_json(struct(*)) as payload",
        "concat('order-', number) as id",
    ).write.format("arauto").mode("append").options(**TO_SHOP).save()


def announce_large_orders(spark: SparkSession, checkpoint: str) -> None:
    """What is in the journal now; without the trigger it would go on as messages come."""
    journal = spark.readStream.format("arauto").options(url=JOURNAL, kinds="1").load()
    large = (
        journal.where("hub = 'shop' and channel like 'orders:%'")
        .selectExpr(
            "from_json(cast(payload as string), 'shop string, number int, total double') as o",
            "headers",
            "concat(node, '-', seq) as id",
        )
        .where("o.total >= 100")
        .selectExpr("concat('large:', o.shop) as channel", "to_json(o) as payload", "id", "headers")
    )
    query = (
        large.writeStream.format("arauto")
        .options(**TO_SHOP)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    keep_messages()
    with tempfile.TemporaryDirectory() as made, open_spark("example", Path(made)) as spark:
        spark.dataSource.register(ArautoDataSource)
        publish_orders(spark)
        announce_large_orders(spark, f"{made}/checkpoint")

        journal = spark.read.format("arauto").options(url=JOURNAL, kinds="1").load()
        found = journal.where("hub = 'shop' and channel like 'large:%'").orderBy("channel")
        for row in found.toLocalIterator():
            print(f"{row.channel}: {row.payload.decode()} after {row.headers['x-hops']} hops")


main()
