"""The peers of the studies `cluster-effect` and `cluster-shift`: the loss and the output without clusters of heads."""

from removal import losses, places_of, shifts
from sample import batches, encoded


def clusters_of(section):
    """What peers without clusters start from: batches, the clusters of a section of the report, and the random sets beside them."""

    def given(folder, study, report):
        found = report[section]["clusters"]
        sets = [places_of(one["heads"]) for cluster in found for one in cluster.get("random_sets", [])]
        return list(batches(encoded(folder, study.sample, study.phases))), [places_of(one["heads"]) for one in found], sets

    return given


def all_but_each(cluster):
    return [frozenset(cluster) - {kept} for kept in cluster]


def sets_of(clusters):
    """What is removed: each cluster, each of its heads, and all of them but each."""
    return {
        "together": [frozenset(cluster) for cluster in clusters],
        "alone": [frozenset({place}) for cluster in clusters for place in cluster],
        "all_but": [rest for cluster in clusters for rest in all_but_each(cluster)],
    }




def cluster_effect(heads, data, clusters, random_sets):
    """What is lost without each cluster, without each of its heads, and without all but each; all but each head of the random sets
    are removed as well, of which the report has p-values alone, and all heads."""
    removed, random = sets_of(clusters), [rest for one in random_sets for rest in all_but_each(one)]
    whole, without = losses(heads, data, {*sum(removed.values(), []), *random, frozenset(heads.places())})
    return {name: [without[gone] - whole for gone in sets] for name, sets in removed.items()}


def cluster_shift(heads, data, clusters, _):
    """How far tokens move without each cluster, each of its heads, and all but each; all heads are removed as well."""
    removed = sets_of(clusters)
    found = shifts(heads, data, {*sum(removed.values(), []), frozenset(heads.places())})
    return {name: [found[gone][0] for gone in sets] for name, sets in removed.items()}


def of_clusters(section):
    """The same numbers of the report."""

    def ours(report):
        found = report[section]["clusters"]
        values = lambda name: [change["value"] for cluster in found for change in cluster[name]]
        together = [cluster["together"]["value"] for cluster in found]
        return {"together": together, "alone": values("alone"), "all_but": values("all_but")}

    return ours
