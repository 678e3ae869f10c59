package quotas

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// object is what a service answers with.
type object = fakecloud.Object

// cloud is one with 3 of 10 servers, 1 of 2 floating IPs, and 2 load balancers on two pages without a limit.
func cloud(t *testing.T) *fakecloud.Cloud {
	t.Helper()
	c := fakecloud.New(t)
	c.Limits = object{
		"totalInstancesUsed": 3, "maxTotalInstances": 10, "totalCoresUsed": 6, "maxTotalCores": -1, "totalRAMUsed": 2048, "maxTotalRAMSize": 4096,
	}
	detail := func(used, reserved, limit int) object {
		return object{"used": used, "reserved": reserved, "limit": limit}
	}
	answers := map[string]object{
		"/v2.0/quotas/" + fakecloud.Project + "/details.json": {"quota": object{
			"floatingip": detail(1, 0, 2), "port": detail(7, 1, 500), "security_group": detail(1, 0, 10), "security_group_rule": detail(4, 0, 100),
		}},
		"/": {"versions": []object{{"id": "v2.26", "status": "CURRENT", "links": []object{}}}},
		"/v2.0/lbaas/quotas/" + fakecloud.Project: {"quota": object{"loadbalancer": -1, "load_balancer": -1, "listener": 5, "pool": 6, "member": 7}},
	}
	balancer := func(id string, listeners int) object {
		return object{"id": id, "listeners": slices.Repeat([]object{{"id": "l"}}, listeners), "pools": []object{{"id": "p"}}}
	}
	c.Balancers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if r.URL.Path == "/v2.0/lbaas/loadbalancers" {
			answer, known = object{"loadbalancers": []object{balancer("a", 2)}, "loadbalancers_links": []object{
				{"rel": "next", "href": c.URL + "/load-balancer/v2.0/lbaas/loadbalancers?marker=a"},
			}}, true
			if r.URL.Query().Get("marker") == "a" {
				answer = object{"loadbalancers": []object{balancer("b", 1)}}
			} else if r.URL.Query().Get("project_id") != fakecloud.Project {
				known = false
			}
		}
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	return c
}

// watching is a watcher of a cloud, and what it logs.
func watching(t *testing.T, c *fakecloud.Cloud) (w *Watcher, registry *prometheus.Registry, ctx context.Context, logs *[]string) {
	t.Helper()
	w, registry, logs = New(session.New(c.Source(t, "")), true), prometheus.NewRegistry(), &[]string{}
	if err := w.Register(registry); err != nil {
		t.Fatal(err)
	}
	ctx = logr.NewContext(t.Context(), funcr.New(func(_, args string) { *logs = append(*logs, args) }, funcr.Options{}))
	return w, registry, ctx, logs
}

const (
	novaLimits   = "limit cores=- memory_mebibytes=4096 servers=10; used cores=6 memory_mebibytes=2048 servers=3"
	otherLimits  = "limit floating_ips=2 ports=500 security_group_rules=100 security_groups=10; used floating_ips=1 ports=8 security_group_rules=4 security_groups=1"
	lbaasLimits  = "limit listeners=5 load_balancers=- pools=6; used listeners=3 load_balancers=2 pools=2"
	callsOfALook = 5
)

// shown compares the metrics with what is wanted of services.
func shown(t *testing.T, registry *prometheus.Registry, services ...string) {
	t.Helper()
	var want strings.Builder
	for i, kind := range []string{"limit", "used"} {
		help := map[string]string{"limit": "How many the project may have, by resource, as the replica that leads has read it within a quarter of an hour. Without a limit there is no value.",
			"used": "How many the project has of what it has a quota of, by resource, for all users of the project."}[kind]
		var lines []string
		for _, service := range services {
			part := strings.TrimPrefix(strings.Split(service, "; ")[i], kind+" ")
			for pair := range strings.FieldsSeq(part) {
				resource, value, _ := strings.Cut(pair, "=")
				if value != "-" {
					lines = append(lines, "mooring_openstack_quota_"+kind+`{resource="`+resource+`"} `+value+"\n")
				}
			}
		}
		if len(lines) > 0 {
			want.WriteString("# HELP mooring_openstack_quota_" + kind + " " + help + "\n# TYPE mooring_openstack_quota_" + kind + " gauge\n" + strings.Join(lines, ""))
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

func TestQuotasAreShown(t *testing.T) {
	c := cloud(t)
	w, registry, ctx, logs := watching(t, c)
	w.Look(ctx)
	shown(t, registry, novaLimits, otherLimits, lbaasLimits)
	if c.Lock(); len(c.Calls) != callsOfALook {
		t.Errorf("calls %q, want one for each service, one for what Octavia has, and one for its second page", c.Calls)
	}
	c.Unlock()
	if len(*logs) > 0 {
		t.Errorf("it logs %q", *logs)
	}
}

// A service that refuses, is missing or answers nonsense hides no other's quotas, and is logged once.
func TestAServiceThatDoesNotSay(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		answer http.HandlerFunc
		want   []string
	}{
		"Octavia refuses":       {"/load-balancer/v2.0/lbaas/quotas/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, []string{novaLimits, otherLimits}},
		"Neutron does not know": {"/network/v2.0/quotas/", http.NotFound, []string{novaLimits, lbaasLimits}},
		"Nova answers nonsense": {"/compute/v2.1/limits", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, []string{otherLimits, lbaasLimits}},
		"a list that breaks off": {"/load-balancer/v2.0/lbaas/loadbalancers", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("marker") == "" {
				_ = json.NewEncoder(w).Encode(object{"loadbalancers": []object{{"id": "a"}}, "loadbalancers_links": []object{
					{"rel": "next", "href": "http://" + r.Host + r.URL.Path + "?marker=a"}}})
				return
			}
			w.WriteHeader(500)
		}, []string{novaLimits, otherLimits}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud(t)
			w, registry, ctx, logs := watching(t, c)
			c.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, test.path) {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				test.answer(w, r)
				return true
			}
			w.Look(ctx)
			w.Look(ctx)
			shown(t, registry, test.want...)
			if len(*logs) != 1 || !strings.Contains((*logs)[0], "cannot be read") {
				t.Errorf("it logs %q, want one line", *logs)
			}
		})
	}
}

// A service that hangs is given up, the others are shown meanwhile, and the end of the process waits for none.
func TestAServiceThatHangs(t *testing.T) {
	c := cloud(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	hangs := make(chan struct{}, 10)
	c.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/compute/v2.1/limits" {
			return false
		}
		hangs <- struct{}{}
		<-over
		return true
	}
	w, registry, ctx, logs := watching(t, c)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Look(ctx)
	}()
	<-hangs
	poll.Until(t, "the other services are shown while one hangs", func(context.Context) error {
		return poll.Holds(testutil.CollectAndCount(w.metrics.used) >= 7)
	})
	cancel()
	<-ended
	shown(t, registry, otherLimits, lbaasLimits)
	if len(*logs) > 0 {
		t.Errorf("it logs %q of the end", *logs)
	}
}

// What a service has said counts for a while when it says nothing more, and it is asked now and then only.
func TestRunAsksNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(nil, false)
		var asked atomic.Int64
		var failing atomic.Bool
		w.services = map[string]read{"Nova": nil}
		w.asks = func(context.Context, read) ([]Usage, error) {
			if count := asked.Add(1); !failing.Load() {
				return []Usage{{"servers", int(count), 10}}, nil
			}
			return nil, errors.New("away")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		after := func(pause time.Duration, wantAsked int64, wantShown int) {
			t.Helper()
			time.Sleep(pause)
			synctest.Wait()
			if got := testutil.CollectAndCount(w.metrics.used); asked.Load() != wantAsked || got != wantShown {
				t.Errorf("it has asked %d times and shows %d quotas, want %d and %d", asked.Load(), got, wantAsked, wantShown)
			}
		}
		after(firstLook-time.Second, 0, 0)
		after(2*time.Second, 1, 1)
		after(interval, 2, 1)
		failing.Store(true)
		after(interval, 3, 1)
		after(2*interval, 5, 1)
		after(interval, 6, 0)
		failing.Store(false)
		after(interval, 7, 1)
		cancel()
		<-ended
	})
}

// A panic of what reads an answer is an error.
func TestAPanicIsAnError(t *testing.T) {
	w := New(session.New(cloud(t).Source(t, "")), false)
	_, err := w.ask(t.Context(), func(context.Context, *session.Clients) ([]Usage, error) { panic("boom") })
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v", err)
	}
}
