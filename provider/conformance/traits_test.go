package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider/conformance"
)

// asks is a provider of two instances, machine-1 and machine-2, that is as its fields say. It knows no load balancers.
type asks struct {
	cloudprovider.Interface
	// takes is how long an answer takes, and deaf says that a call does not end with its context.
	takes time.Duration
	deaf  bool
	// shuffled says that addresses come in another order each time.
	shuffled bool
	// bare says that an ID without its scheme is taken, too.
	bare bool
	// alone says that a call fails while another one is under way.
	alone bool

	running, calls atomic.Int64
}

func (*asks) ProviderName() string                             { return "rack" }
func (*asks) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
func (a *asks) InstancesV2() (cloudprovider.InstancesV2, bool) { return a, true }

func (a *asks) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	metadata, err := a.InstanceMetadata(ctx, node)
	return metadata != nil, err
}

func (a *asks) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }

func (a *asks) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	defer a.running.Add(-1)
	if a.running.Add(1) > 1 && a.alone {
		return nil, errors.New("one at a time")
	}
	answer := time.NewTimer(a.takes)
	defer answer.Stop()
	if a.deaf {
		<-answer.C
	} else {
		select {
		case <-answer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	id := node.Spec.ProviderID
	if a.bare && !strings.Contains(id, "://") {
		id = "rack://" + id
	}
	if id == "" {
		id = "rack://" + node.Name
	}
	if !slices.Contains([]string{"rack://machine-1", "rack://machine-2"}, id) {
		return nil, cloudprovider.InstanceNotFound
	}
	addresses := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}, {Type: v1.NodeInternalIP, Address: "192.0.2.2"}}
	if a.calls.Add(1)%2 == 0 && a.shuffled {
		slices.Reverse(addresses)
	}
	return &cloudprovider.InstanceMetadata{ProviderID: id, NodeAddresses: addresses}, nil
}

// observed returns what is found of a provider, by trait.
func observed(t *testing.T, cloud cloudprovider.Interface) (map[string]conformance.Finding, []conformance.Finding) {
	t.Helper()
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: cloud, Instances: []conformance.Instance{
			{NodeName: "machine-1", ProviderID: "rack://machine-1"}, {NodeName: "machine-2", ProviderID: "rack://machine-2"},
		}}, nil
	}
	all, err := conformance.Observe(t.Context(), factory, conformance.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]conformance.Finding{}
	for _, found := range all {
		byID[found.Trait.ID] = found
	}
	return byID, all
}

func TestWhatProvidersBear(t *testing.T) {
	const slow = 100 * time.Millisecond
	for name, test := range map[string]struct {
		cloud *asks
		// says is what the finding of a trait has to say, and reads what may be declared of reads.
		says  map[string]string
		reads string
	}{
		"a good one": {
			&asks{takes: slow},
			map[string]string{
				"id-spelling": `gives "rack://machine-1", and accepts no other`, "address-order": "the same in 5 of 5", "context": "5 of 5 calls ended with their context",
				"reads-at-once": "16 at once, each with its own answer",
			}, "provider.Limits{InFlight: 16}",
		},
		"an odd one": {
			&asks{takes: slow, deaf: true, shuffled: true, bare: true, alone: true},
			map[string]string{
				"id-spelling": `accepts ["machine-1"] for it`, "address-order": "not: ", "context": "calls go on: with a context of 25ms they took up to 100ms",
				"reads-at-once": "one at a time: ",
			}, "",
		},
		"one that knows its answers": {&asks{}, map[string]string{"context": "too short to tell"}, "provider.Limits{InFlight: 16}"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found, _ := observed(t, test.cloud)
				for trait, want := range test.says {
					if !strings.Contains(found[trait].Says, want) {
						t.Errorf("%s: %q, want %q", trait, found[trait].Says, want)
					}
				}
				if got := found["reads-at-once"].Declare; got != test.reads {
					t.Errorf("to be declared: %q, want %q", got, test.reads)
				}
				if got := found["id-spelling"].Declare; got != `[]string{"rack"}` {
					t.Errorf("to be declared: %q", got)
				}
			})
		})
	}
}

// What cannot be tried says why, and what is found is written as Go.
func TestFindingsAreWrittenAsCode(t *testing.T) {
	_, found := observed(t, &asks{})
	var text bytes.Buffer
	if err := conformance.WriteFindings(&text, found); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  reads-at-once  16 at once", "\treturn provider.Capabilities{\n", "ProviderIDSchemes: []string{\"rack\"},", "Limits: provider.Limits{InFlight: 16},"} {
		if !strings.Contains(strings.ReplaceAll(text.String(), "Limits:            ", "Limits: "), want) {
			t.Errorf("it lacks %q:\n%s", want, text.String())
		}
	}
	_, code, _ := strings.Cut(text.String(), "// Capabilities says")
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n// Capabilities says"+code, 0); err != nil {
		t.Errorf("%v:\n%s", err, code)
	}
	nothing, err := conformance.Observe(t.Context(), func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: &asks{}}, nil
	}, conformance.Options{}, nil)
	if err != nil || len(nothing) != len(conformance.Traits()) || !strings.HasPrefix(nothing[0].Says, "not known: the factory creates no instance") {
		t.Errorf("without instances: %+v, %v", nothing, err)
	}
}

// Addresses in another order are the same metadata.
func TestOrderOfAddressesBreaksNoRule(t *testing.T) {
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: &asks{shuffled: true}, Instances: []conformance.Instance{{NodeName: "machine-1"}}}, nil
	}
	report, err := conformance.Check(t.Context(), factory, conformance.Options{Rules: []string{"instances-metadata-complete"}})
	if err != nil || !report.OK() {
		t.Errorf("%v: %+v", err, report.Results)
	}
}
