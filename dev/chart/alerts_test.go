package chart_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/mooring-ccm/mooring/dev/must"
)

// Series are written as promtool takes them: a value for each step, over an hour.
const (
	step = 30 * time.Second
	hour = "x120"
)

// healthyRack are the series of two replicas, of which a leads, with two routers and nothing to complain about.
const healthyRack = `
kubernetes_build_info{job="mooring-metrics",instance="a"} 1` + hour + `
kubernetes_build_info{job="mooring-metrics",instance="b"} 1` + hour + `
kubernetes_healthcheck{job="mooring-metrics",instance="a",type="readyz",name="ping"} 1` + hour + `
kubernetes_healthcheck{job="mooring-metrics",instance="a",type="readyz",name="announcing"} 1` + hour + `
kubernetes_healthcheck{job="mooring-metrics",instance="b",type="readyz",name="announcing"} 1` + hour + `
mooring_metal_destinations{instance="a",kind="service-address"} 4` + hour + `
mooring_metal_destinations{instance="b",kind="service-address"} 4` + hour + `
mooring_metal_bgp_session_up{instance="a",peer="r1"} 1` + hour + `
mooring_metal_bgp_session_up{instance="b",peer="r1"} 1` + hour + `
mooring_metal_bgp_session_up{instance="a",peer="r2"} 1` + hour + `
mooring_metal_bgp_session_up{instance="b",peer="r2"} 1` + hour + `
mooring_metal_bgp_session_flaps_total{instance="a",peer="r1"} 2` + hour + `
mooring_metal_bgp_prefixes{instance="a",peer="r1",family="IPv4"} 4` + hour + `
mooring_metal_bgp_prefixes{instance="b",peer="r1",family="IPv4"} 4` + hour + `
mooring_metal_services{instance="a",announced="true"} 4` + hour + `
mooring_metal_services{instance="a",announced="false"} 0` + hour + `
mooring_metal_next_hops{instance="a",state="in"} 3` + hour + `
mooring_metal_next_hops{instance="b",state="in"} 3` + hour + `
mooring_metal_probes_blind{instance="a"} 0` + hour + `
mooring_metal_probes_blind{instance="b"} 0` + hour + `
mooring_metal_kube_proxy_unproven{instance="a"} 0` + hour + `
mooring_metal_config_reload_failed{instance="a"} 0` + hour + `
mooring_metal_pool_addresses{instance="a",pool="public",family="IPv4",state="assigned"} 4` + hour + `
mooring_metal_pool_addresses{instance="a",pool="public",family="IPv4",state="free"} 16` + hour + `
mooring_metal_pool_addresses{instance="a",pool="one",family="IPv4",state="assigned"} 1` + hour + `
mooring_metal_pool_addresses{instance="a",pool="one",family="IPv4",state="free"} 0` + hour + `
mooring_metal_services_without_address{instance="a"} 0` + hour + `
mooring_metal_announce_failures_total{instance="a",sink="BGP"} 0` + hour + `
mooring_metal_l2_frames_total{instance="a",protocol="arp",result="error"} 3` + hour + `
mooring_metal_bmc_failures{instance="a",machine="n1"} 2` + hour + `
mooring_metal_bmc_systems{instance="a",result="verified"} 3` + hour + `
mooring_metal_bmc_systems{instance="a",result="wrong"} 0` + hour + `
`

// TestAlertsFire evaluates every alert by Prometheus's own engine, over what the metrics are in a rack that works and in racks with one fault
// each. Counters begin at zero, when the manager starts: the first failure counts.
func TestAlertsFire(t *testing.T) {
	faults := map[string]struct {
		series string // take the place of those with the same labels
		fire   []string
	}{
		"none": {"", nil},
		"both replicas are gone": {withoutReplicas(t, "a", "b"),
			[]string{"MooringAbsent", "MooringNoReplicaAnnounces"}},
		"one replica is gone": {withoutReplicas(t, "b"), nil},
		"no session is up": {sessions("0"+hour, "a r1", "b r1", "a r2", "b r2"),
			[]string{"MooringNoReplicaAnnounces", "MooringPeerLost"}},
		"no session with one router is up":        {sessions("0"+hour, "a r1", "b r1"), []string{"MooringPeerLost"}},
		"one replica has no session":              {sessions("0"+hour, "b r1"), []string{"MooringSessionDown"}},
		"a replica had none for a minute":         {sessions("1x117 0x2", "b r1"), nil},
		"a router takes one next hop only":        {`mooring_metal_bgp_session_problem{instance="a",peer="r1",family="IPv6",problem="NoAddPath"} 1` + hour, []string{"MooringSessionIncomplete"}},
		"a session has a problem of its own":      {`mooring_metal_bgp_session_problem{instance="a",peer="r1",family="",problem="NoAnswer"} 1` + hour, nil},
		"a session comes and goes":                {`mooring_metal_bgp_session_flaps_total{instance="a",peer="r1"} 0x80 1+1x8 9x30`, []string{"MooringSessionFlaps"}},
		"both are not ready":                      {notReady("a", "b"), []string{"MooringNoReplicaReady"}},
		"one is not ready":                        {notReady("b"), nil},
		"a replica announces less":                {`mooring_metal_bgp_prefixes{instance="b",peer="r1",family="IPv4"} 3` + hour, []string{"MooringReplicasAnnounceDifferently"}},
		"a replica without session has none":      {sessions("0"+hour, "b r1") + `mooring_metal_bgp_prefixes{instance="b",peer="r1",family="IPv4"} 0` + hour, []string{"MooringSessionDown"}},
		"a Service is not announced":              {`mooring_metal_services{instance="a",announced="false"} 1` + hour, []string{"MooringServiceNotAnnounced"}},
		"a Service waits for 4 min":               {`mooring_metal_services{instance="a",announced="false"} 0x112 1x8`, nil},
		"no node is a next hop":                   {nextHops("0" + hour), []string{"MooringNoNextHops"}},
		"the probes of one replica are blind":     {`mooring_metal_probes_blind{instance="b"} 1` + hour, []string{"MooringProberBlind"}},
		"no kube-proxy has ever answered":         {`mooring_metal_kube_proxy_unproven{instance="a"} 1` + hour, []string{"MooringKubeProxyUnproven"}},
		"the cloud config is refused":             {`mooring_metal_config_reload_failed{instance="a"} 1` + hour, []string{"MooringConfigRefused"}},
		"the plugin panics for the first time":    {`mooring_cloud_panics_total{instance="a",operation="EnsureLoadBalancer"} 0x110 1x10`, []string{"MooringPluginPanics"}},
		"load balancers drift for the first time": {`mooring_service_drift_total{instance="a",kind="gone"} 0x90 0+1x4 4x30`, []string{"MooringDrift"}},
		"a load balancer drifts once":             {`mooring_service_drift_total{instance="a",kind="changed"} 0x90 1x30`, nil},
		"a node waits":                            {`mooring_node_uninitialized{instance="a"} 1` + hour, []string{"MooringNodeUninitialized"}},
		"a node waits for 4 min":                  {`mooring_node_uninitialized{instance="a"} 0x112 1x8`, nil},
		"a deletion is held":                      {`mooring_node_lifecycle_held_nodes{instance="a",reason="DeletionLimit"} 1` + hour, []string{"MooringDeletionsHeld"}},
		"the cloud refuses calls":                 {`mooring_cloud_refusals_total{instance="a",group="instances"} 0+3` + hour, []string{"MooringThrottled"}},
		"calls hang":                              {`mooring_cloud_calls_outstanding{instance="a",group="instances"} 1` + hour, []string{"MooringPluginHangs"}},
		"all calls fail": {`mooring_cloud_calls_total{instance="a",operation="InstanceMetadata",outcome="error"} 0+1` + hour + "\n" +
			`mooring_cloud_calls_total{instance="a",operation="InstanceMetadata",outcome="ok"} 7` + hour, []string{"MooringCloudAway"}},
		"some calls fail": {`mooring_cloud_calls_total{instance="a",operation="InstanceMetadata",outcome="error"} 0+1` + hour + "\n" +
			`mooring_cloud_calls_total{instance="a",operation="InstanceMetadata",outcome="ok"} 0+1` + hour, nil},
		"no list is complete":         {`mooring_inventory_listing_timestamp_seconds{instance="a"} 600` + hour, []string{"MooringInstancesUnseen"}},
		"a route is missing":          {`mooring_route_missing{instance="a"} 1` + hour, []string{"MooringRoutesMissing"}},
		"the route table is full":     {`mooring_route_listed{instance="a"} 95` + hour + "\n" + `mooring_route_limit{instance="a"} 100` + hour, []string{"MooringRouteTableNearlyFull"}},
		"the route table has no size": {`mooring_route_listed{instance="a"} 95` + hour + "\n" + `mooring_route_limit{instance="a"} 0` + hour, nil},
		"a load balancer waits":       {`mooring_service_load_balancers{instance="a",state="unfinished"} 1` + hour, []string{"MooringServiceUnfinished"}},
		"a kubelet has no certificate": {`mooring_serving_certificate_waiting_requests{instance="a",reason="UnknownAddress"} 1` + hour,
			[]string{"MooringServingCertificatesWait"}},
		"the autoscaler is not served": {`mooring_autoscaler_serving{instance="a"} 0` + hour, []string{"MooringAutoscalerNotServed"}},
		"a node group is not known":    {`mooring_autoscaler_node_group_served{instance="a",node_group="g"} 0` + hour, []string{"MooringNodeGroupLeftOut"}},
		"deletions fail":               {`mooring_autoscaler_deletion_failures_total{instance="a"} 0+1` + hour, []string{"MooringAutoscalerDeletionsFail"}},
		"a load balancer is left":      {`mooring_service_orphans{instance="a",owner="this_cluster"} 1` + hour, []string{"MooringOrphans"}},
		"an OpenStack quota is nearly used": {`mooring_openstack_quota_used{instance="a",resource="load_balancers"} 19` + hour +
			"\n" + `mooring_openstack_quota_limit{instance="a",resource="load_balancers"} 20` + hour, []string{"MooringOpenStackQuotaNearlyUsed"}},
		"an OpenStack quota is half used": {`mooring_openstack_quota_used{instance="a",resource="servers"} 5` + hour +
			"\n" + `mooring_openstack_quota_limit{instance="a",resource="servers"} 10` + hour, nil},
		"a pool has one address left":     {pool("19", "1"), []string{"MooringPoolNearlyFull"}},
		"a pool has three addresses left": {pool("17", "3"), nil},
		"a Service is refused an address": {`mooring_metal_services_without_address{instance="a"} 1` + hour, []string{"MooringServicesWithoutAddress"}},
		"changes are not announced":       {`mooring_metal_announce_failures_total{instance="a",sink="BGP"} 0x110 1x10`, []string{"MooringAnnouncementFails"}},
		"ARP cannot be sent":              {`mooring_metal_l2_frames_total{instance="a",protocol="arp",result="error"} 0+1` + hour, []string{"MooringLayer2SendFails"}},
		"a BMC is another machine's":      {`mooring_metal_bmc_systems{instance="a",result="wrong"} 1` + hour, []string{"MooringBMCWrong"}},
		"a BMC does not answer":           {`mooring_metal_bmc_failures{instance="a",machine="n1"} 40` + hour, []string{"MooringBMCFails"}},
		"a BMC turns a machine not on":    {`mooring_metal_node_group_errors{instance="a",group="g",code="bmc-refused"} 1` + hour, []string{"MooringNodeGroupMachineFails"}},
		"a machine has to rest":           {`mooring_metal_node_group_errors{instance="a",group="g",code="machine-rests"} 1` + hour, nil},
	}
	all, fired := alerts(t), map[string]bool{}
	for name, fault := range faults {
		series := parseSeries(t, healthyRack)
		maps.Copy(series, parseSeries(t, fault.series))
		var have []string
		for _, alert := range all {
			if fires(t, alert, series) {
				have = append(have, alert.Alert)
				fired[alert.Alert] = true
			}
		}
		slices.Sort(have)
		if !slices.Equal(have, fault.fire) {
			t.Errorf("%s: the alerts %q fire, want %q", name, have, fault.fire)
		}
	}
	for _, alert := range all {
		if !fired[alert.Alert] {
			t.Errorf("%s fires in no case of this test", alert.Alert)
		}
	}
}

// withoutReplicas ends all series of replicas, as Prometheus does when it finds a target no more.
func withoutReplicas(t *testing.T, names ...string) string {
	t.Helper()
	var changed strings.Builder
	for line := range strings.Lines(strings.TrimSpace(healthyRack)) {
		description, _, _ := strings.Cut(line, " ")
		for _, name := range names {
			if strings.Contains(description, `instance="`+name+`"`) {
				changed.WriteString(description + " stale\n")
			}
		}
	}
	if changed.Len() == 0 {
		t.Fatalf("there is no replica of %q", names)
	}
	return changed.String()
}

// sessions are those of replicas with routers.
func sessions(values string, pairs ...string) string {
	var lines strings.Builder
	for _, pair := range pairs {
		instance, peer, _ := strings.Cut(pair, " ")
		lines.WriteString(`mooring_metal_bgp_session_up{instance="` + instance + `",peer="` + peer + `"} ` + values + "\n")
	}
	return lines.String()
}

func notReady(instances ...string) string {
	var lines strings.Builder
	for _, instance := range instances {
		lines.WriteString(`kubernetes_healthcheck{job="mooring-metrics",instance="` + instance + `",type="readyz",name="announcing"} 0` + hour + "\n")
	}
	return lines.String()
}

func nextHops(values string) string {
	return `mooring_metal_next_hops{instance="a",state="in"} ` + values + "\n" + `mooring_metal_next_hops{instance="b",state="in"} ` + values
}

func pool(assigned, free string) string {
	const prefix = `mooring_metal_pool_addresses{instance="a",pool="public",family="IPv4",state="`
	return prefix + `assigned"} ` + assigned + hour + "\n" + prefix + `free"} ` + free + hour
}

// parseSeries reads series by their labels, one a line.
func parseSeries(t *testing.T, text string) map[string]promql.Series {
	t.Helper()
	found := map[string]promql.Series{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimSpace(line))
		must.NoError(t, err)
		series := promql.Series{Metric: metric}
		for i, value := range values {
			if !value.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: int64(i) * step.Milliseconds(), F: value.Value})
			}
		}
		found[metric.String()] = series
	}
	return found
}

// fires reports whether the expression of an alert has held for as long as it has to, at the end of the hour.
func fires(t *testing.T, alert alert, series map[string]promql.Series) bool {
	t.Helper()
	wait := time.Duration(0)
	if alert.For != "" {
		parsed, err := model.ParseDuration(alert.For)
		must.NoError(t, err)
		wait = time.Duration(parsed)
	}
	const end = 120 * step
	for at := end; at >= end-wait; at -= step {
		if !holds(t, alert.Expr, series, time.UnixMilli(0).Add(at)) {
			return false
		}
	}
	return true
}

// holds evaluates an expression.
func holds(t *testing.T, expression string, series map[string]promql.Series, at time.Time) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: math.MaxInt32, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { must.NoError(t, engine.Close()) }()
	query, err := engine.NewInstantQuery(t.Context(), database(series), nil, expression, at)
	must.NoError(t, err)
	defer query.Close()
	result := query.Exec(t.Context())
	must.NoError(t, result.Err)
	vector, err := result.Vector()
	must.NoError(t, err)
	return len(vector) > 0
}

// database serves series from memory.
type database map[string]promql.Series

// Querier returns what selects series.
func (d database) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &selected{at: -1}
		for _, series := range d {
			if matches(series.Metric, matchers) {
				found.series = append(found.series, promql.NewStorageSeries(series))
			}
		}
		return found
	}}, nil
}

func matches(metric labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(metric.Get(m.Name)) })
}

// selected is a set of series.
type selected struct {
	series []storage.Series
	at     int
}

// Next goes to the next series.
func (s *selected) Next() bool { s.at++; return s.at < len(s.series) }

// At returns the series that Next went to.
func (s *selected) At() storage.Series { return s.series[s.at] }

// Err returns nothing: nothing fails.
func (*selected) Err() error { return nil }

// Warnings returns none.
func (*selected) Warnings() annotations.Annotations { return nil }
