"""The figures of mixed work and of fleets by the benchmark that makes them, and what each is of, in
the order in which the page shows them.
"""

_THROUGH = "200 templates mixed, 50 tenants with quotas"
_SPREAD = "templates that prefer to spread by zone and host"
_WAIT = "30,000 pods of 200 templates wait for room: CPU of a pod that ends"
_STALL = "longest time without decisions, CPU,"
_ALONE = "wall-clock time of pods one by one, each until it is bound"
_NEXT = "the leader is killed: until the next one binds"

OF_BENCHMARKS: dict[str, dict[str, str]] = {
    "small_pods": {
        "decide_small_pods": "one template of 50m and 64Mi, the core alone",
        "decide_small_pods_without_readings": "the same without readings of live load",
    },
    "gangs_of_eight": {
        "gangs_of_eight": "gangs of 8 that ask for one rack, 125 racks, the core alone",
    },
    "best_rack_of_100_clusters": {
        "best_rack_p50": "the best of 12,500 racks in 100 clusters for a gang of 64, median",
        "best_rack_p99": "the same, p99",
        "best_rack_first": "the same for the first gang, which waits for columns of nodes",
    },
    "gangs_that_fit_nowhere": {
        "gangs_refused": "5,000 gangs of 8 that no rack has room for, refused again",
    },
    "mixed_classes": {
        "mixed_one_template": "one template of 500m and 512Mi",
        "mixed_200_classes": "200 templates mixed",
        "mixed_1000_classes": "1,000 templates mixed",
    },
    "waiting_groups": {
        "waiting_groups": "5,000 groups that wait, no two of one class, while pods end and come",
        "waiting_groups_alike": "the same, of groups that are alike",
    },
    "mixed_small_pods": {
        "mixed_small_pods": "one template of 50m and 64Mi",
    },
    "mixed_tenants": {
        "mixed_50_tenants": _THROUGH,
        "mixed_50_tenants_readings": f"{_THROUGH}, 50 readings for each hundred pods bound",
        "mixed_50_tenants_churn": f"{_THROUGH}, 20 pods end for each hundred bound",
        "mixed_50_tenants_tree": f"{_THROUGH} in a tree of 3 levels, nearly all of it borrowed",
    },
    "first_pods": {
        "first_pod_in_a_burst": "20,000 pods of a tenant wait: the first pod of another one",
        "others_before_it": "pods of the burst that are bound before that pod, once it has come",
    },
    "tenants_on_planes": {
        "planes_shares_off": "three tenants, weights 5:3:2, two real clusters: how far the worst "
        "share of five minutes is from its due",
        "planes_jain": "the same: Jain's index of share by weight, the worst five minutes",
        "planes_quota_lent": "the same: from the end of a tenant's last pod until others use its "
        "quota",
        "planes_quota_back": "the same: from its return until it has its quota, beyond the grace "
        "of who is evicted",
    },
    "mixed_rules": {
        "mixed_500_classes_20_anti_affinity": "500 templates mixed, 20 % with anti-affinity by "
        "hostname",
        "mixed_200_soft_spread": f"200 {_SPREAD}, all at once",
        "mixed_1000_soft_spread": f"1,000 {_SPREAD}, all at once",
        "mixed_1000_soft_spread_bursts": "the same in bursts of about a pod a template: each is "
        "decided by itself",
    },
    "mixed_claims": {
        "mixed_claims_that_wait": "pods with a claim each, which waits for its first consumer",
    },
    "mixed_refusals": {
        "mixed_refusals": "200 templates mixed, all pending, no pod fits: refused at first",
        "mixed_refusals_with_report": "the same, with the taking in of the report of these pods",
        "mixed_refusals_again": "the same pods, tried again after five minutes",
    },
    "mixed_full_queue": {
        "mixed_full_queue_ended_pod": f"{_WAIT}, one at a time",
        "mixed_full_queue_20_ended_pods": f"{_WAIT}, 20 at a time",
    },
    "mixed_preemption": {
        "mixed_preemption_0_budgets": "a preemptor, 4 pods a node, no disruption budgets",
        "mixed_preemption_20_budgets": "the same with 20 budgets",
        "mixed_preemption_200_budgets": "the same with 200 budgets",
    },
    "mixed_records": {
        "mixed_record_cost": "what a decision costs more when its record is journalled",
    },
    "fleet_of_agents": {
        "fleet_until_it_decides": "CPU from the start to the first pod bound",
        "fleet_rss": "what the process takes more once it knows all nodes and pods",
        "fleet_rss_peak": "most memory of the whole process until then",
        "fleet_idle_cpu": "CPU while nothing happens",
        "fleet_reading_cpu": "CPU of a reading of a node",
        "fleet_readings_core": "CPU of readings of all nodes every 15 s",
        "fleet_readings_p50": f"{_ALONE}, while readings come: median",
        "fleet_readings_p99": "the same, 99th percentile",
        "fleet_readings_stall": f"{_STALL} while readings come",
        "fleet_change_cpu": "CPU of a pod change, at 1,000 a second",
        "fleet_changes_p50": f"{_ALONE}, while pods change: median",
        "fleet_changes_p99": "the same, 99th percentile",
        "fleet_changes_stall": f"{_STALL} while pods change",
        "fleet_burst_bound": "pods of one template, submitted at once in all clusters, until all "
        "are bound",
        "fleet_burst_pod_cpu": "CPU of one of them; all but a few run in other clusters than "
        "their own",
        "fleet_burst_stall": f"{_STALL} during that burst",
        "fleet_local_pod_cpu": "CPU of a pod that runs in its own cluster",
        "fleet_remote_pod_cpu": "CPU of a pod that runs in another cluster",
        "fleet_remote_later": "how much later than a local pod a remote one is shown Running, "
        "median of 20 pairs",
        "fleet_first_report_stall": f"{_STALL} while a cluster is heard of for the first time",
        "fleet_return_stall": f"{_STALL} while an agent that restarted tells all anew",
        "fleet_return_changed_stall": f"{_STALL} while an agent tells all anew, with other labels "
        "on all nodes",
        "fleet_lists_stall": f"{_STALL} while all nodes, pods, clusters and links are listed, and "
        "a pod explained",
        "fleet_scrape_stall": f"{_STALL} while metrics are scraped",
        "fleet_rss_peak_at_end": "most memory of the whole process by the end of all this, bursts "
        "among it",
    },
    "fleet_of_many_templates": {
        "fleet_mixed_burst_bound": "pods of 200 templates, submitted at once in all clusters, "
        "until all are bound",
        "fleet_mixed_burst_pod_cpu": "CPU of one of them; all but a few run in other clusters "
        "than their own",
        "fleet_mixed_burst_stall": f"{_STALL} during that burst",
        "fleet_mixed_local_pod_cpu": "CPU of a pod of such a burst, each in its own cluster",
        "fleet_mixed_rss_peak": "most memory of the whole process, such bursts among it",
    },
    "fleet_of_a_million": {
        "fleet_million_until_it_decides": "200 clusters: CPU from the start to the first pod bound",
        "fleet_million_rss_peak": "200 clusters: most memory of the process",
        "fleet_million_odd_p99": "200 clusters: CPU of the round for a pod of an app never seen "
        "before, p99",
    },
    "fleet_memory": {
        "fleet_memory_node": "memory of a node with its reading",
        "fleet_memory_other_pod": "memory of a pod of other schedulers",
        "fleet_memory_own_pod": "memory of a pod of ours that was found bound",
        "fleet_memory_decided_pod": "memory of a pod of ours that was decided in this process",
    },
    "fail_over_under_load": {
        "fail_over_kill_p50_under_load": f"{_NEXT}, median",
        "fail_over_kill_p99_under_load": f"{_NEXT}, 99th percentile",
        "fail_over_woken_orders": "what a leader that was paused orders after another has taken "
        "over",
    },
    "take_over": {
        "fail_over_take_over_cpu": "CPU from the Lease to the first decision",
    },
}
MEANINGS = {
    name: meaning for figures in OF_BENCHMARKS.values() for name, meaning in figures.items()
}
