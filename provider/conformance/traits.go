package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Trait is something that a provider does one way or another, and that no rule asks for. What it does decides what it may declare.
type Trait struct {
	// ID names the trait, and Text says what is tried.
	ID, Text string
	// Declares is the field of provider.Capabilities that is to be set by it; empty if it only is good to know.
	Declares string
	// Needs are what the subject must offer for it to be tried.
	Needs []Need

	look func(ctx context.Context, t *trial) (Finding, error)
}

// Finding is what a provider was found to do.
type Finding struct {
	Trait Trait
	// Says is what it does, or why that is not known.
	Says string
	// Declare is the value of the field that Trait.Declares names, as it stands in Go; empty if there is nothing to declare.
	Declare string
	// Unproven says why Declare is not to be relied on yet. Empty: it may be.
	Unproven string
}

// Traits returns all traits, in the order in which they are tried. The last one may end the process.
func Traits() []Trait {
	return []Trait{
		{
			ID: "id-spelling", Text: "The scheme of its provider IDs, and which other spellings of an ID it takes for the same instance.",
			Declares: "ProviderIDSchemes", Needs: []Need{NeedInstancesV2, NeedInstance}, look: lookAtSpelling,
		},
		{
			ID: "address-order", Text: "Whether an instance's addresses come in the same order each time. Another order alone is not written.",
			Needs: []Need{NeedInstancesV2, NeedInstance}, look: lookAtOrder,
		},
		{
			ID: "context", Text: "Whether a call ends when its context does while the cloud is at it. One that goes on keeps its place, " +
				"with --cloud-api-timeout too.",
			Needs: []Need{NeedInstancesV2, NeedInstance}, look: lookAtContext,
		},
		{
			ID: "reads-at-once", Text: fmt.Sprintf("Whether %d callers get their own answers at once, and what the race detector says of that. "+
				"A provider that does not bear it may end the process.", readers),
			Declares: "Limits", Needs: []Need{NeedInstancesV2, NeedInstance}, look: lookAtReads,
		},
	}
}

// Observe finds out what a provider bears beside the rules, and returns a finding for each trait. Begins is called before each is tried;
// nil is fine. An error means that the options or the factory are wrong. It makes and changes nothing in the cloud, but for instances if the
// subject can create them.
func Observe(ctx context.Context, factory Factory, options Options, begins func(Trait)) ([]Finding, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	subject, err := factory(ctx)
	if err == nil && (subject == nil || subject.Cloud == nil) {
		err = errors.New("it returned no provider, and no error")
	}
	if err != nil {
		return nil, fmt.Errorf("the factory: %w", err)
	}
	var findings []Finding
	for _, trait := range Traits() {
		if begins != nil {
			begins(trait)
		}
		findings = append(findings, observe(ctx, trait, subject, options))
	}
	if subject.Close != nil {
		err = subject.Close(context.WithoutCancel(ctx))
	}
	return findings, err
}

// observe tries one trait, and removes what that has made.
func observe(ctx context.Context, trait Trait, subject *Subject, options Options) Finding {
	if reason := missing(subject, trait.Needs); reason != "" {
		return Finding{Trait: trait, Says: "not known: " + reason}
	}
	t := newTrial(subject, options, trait.ID)
	trying, cancel := context.WithTimeout(t.withCluster(ctx), options.RuleTimeout)
	defer cancel()
	var found Finding
	err := guarded(func() (err error) { found, err = trait.look(trying, t); return err })
	if err != nil {
		found = Finding{Says: "not known: " + err.Error()}
	}
	if left := t.cleanUp(ctx, trying.Err() != nil); len(left) > 0 {
		found.Says += "; left behind: " + strings.Join(left, "; ")
	}
	found.Trait = trait
	return found
}

// asked is a node with only a provider ID: no instance has its name.
func (t *trial) asked(providerID string) *v1.Node {
	node := namedNode(t.missingName())
	node.Spec.ProviderID = providerID
	return node
}

func lookAtSpelling(ctx context.Context, t *trial) (Finding, error) {
	instance, err := t.instance(ctx)
	if err != nil {
		return Finding{}, err
	}
	scheme, rest, found := strings.Cut(instance.ProviderID, "://")
	if !found {
		return Finding{Says: fmt.Sprintf("the provider ID %q has no scheme", instance.ProviderID)}, nil
	}
	var taken []string
	for _, other := range []string{
		rest, strings.TrimLeft(rest, "/"), scheme + ":///" + strings.TrimLeft(rest, "/"), scheme + "://" + strings.TrimLeft(rest, "/"),
		strings.ToUpper(scheme) + "://" + rest, scheme + "://" + strings.ToUpper(rest), scheme + "://" + strings.ToLower(rest),
	} {
		if other == instance.ProviderID || slices.Contains(taken, other) {
			continue
		}
		if exists, err := t.v2().InstanceExists(ctx, t.asked(other)); err == nil && exists {
			taken = append(taken, other)
		}
	}
	says := fmt.Sprintf("gives %q, and accepts no other spelling that was tried", instance.ProviderID)
	if len(taken) > 0 {
		says = fmt.Sprintf("gives %q, and accepts %q for it", instance.ProviderID, taken)
	}
	return Finding{Says: says, Declare: fmt.Sprintf("[]string{%q}", scheme)}, nil
}

func lookAtOrder(ctx context.Context, t *trial) (Finding, error) {
	instance, err := t.instance(ctx)
	if err != nil {
		return Finding{}, err
	}
	const times = 5
	var first *cloudprovider.InstanceMetadata
	for range times {
		metadata, err := t.metadataOf(ctx, instance)
		if err != nil {
			return Finding{}, err
		}
		if first == nil {
			first = metadata
		}
		if !reflect.DeepEqual(metadata.NodeAddresses, first.NodeAddresses) {
			return Finding{Says: fmt.Sprintf("not: %v, then %v", first.NodeAddresses, metadata.NodeAddresses)}, nil
		}
	}
	return Finding{Says: fmt.Sprintf("the same in %d of %d answers", times, times)}, nil
}

func lookAtContext(ctx context.Context, t *trial) (Finding, error) {
	instance, err := t.instance(ctx)
	if err != nil {
		return Finding{}, err
	}
	const times, enough = 5, 10 * time.Millisecond
	ask := func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		_, err := t.v2().InstanceMetadata(ctx, t.asked(instance.ProviderID))
		return time.Since(began), err
	}
	var whole []time.Duration
	for range times {
		took, err := ask(ctx)
		if err != nil {
			return Finding{}, fmt.Errorf("InstanceMetadata of %s, which exists: %w", instance.NodeName, err)
		}
		whole = append(whole, took)
	}
	least := slices.Min(whole)
	if least < enough {
		return Finding{Says: fmt.Sprintf("not known: an answer takes %s, which is too short to tell", least.Round(time.Microsecond))}, nil
	}
	ended := 0
	var longest time.Duration
	for range times {
		short, cancel := context.WithTimeout(ctx, least/4)
		took, err := ask(short)
		cancel()
		if longest = max(longest, took); err != nil && took < least/2 {
			ended++
		}
	}
	if ended > times/2 {
		return Finding{Says: fmt.Sprintf("%d of %d calls ended with their context", ended, times)}, nil
	}
	return Finding{Says: fmt.Sprintf("calls go on: with a context of %s they took up to %s", (least / 4).Round(time.Millisecond), longest.Round(time.Millisecond))}, nil
}

// readers is how many callers ask at once.
const readers = 16

func lookAtReads(ctx context.Context, t *trial) (Finding, error) {
	before := races()
	err := t.readAtOnce(ctx, readers)
	switch found := races() - before; {
	case err != nil && provider.IsThrottled(err):
		return Finding{}, fmt.Errorf("the cloud throttles %d at once: %w", readers, err)
	case err != nil:
		return Finding{Says: "one at a time: " + firstLine(err)}, nil
	case found > 0:
		return Finding{Says: fmt.Sprintf("one at a time: the race detector found %d data races, which are on standard error", found)}, nil
	}
	finding := Finding{Says: fmt.Sprintf("%d at once, each with its own answer", readers), Declare: fmt.Sprintf("provider.Limits{InFlight: %d}", readers)}
	if raceDetector {
		finding.Says += ", and no data race"
	} else {
		finding.Unproven = "not tried under the race detector: run the provider's own test with go test -race"
	}
	return finding, nil
}

// readAtOnce has as many callers make the same call at the same time, one call after the other, and then all of them. Between the callers
// nothing is in order then, so the race detector takes no accident for one.
func (t *trial) readAtOnce(ctx context.Context, callers int) error {
	instances, err := t.instances(ctx, t.some())
	if err != nil {
		return err
	}
	calls := t.reads(ctx, instances)
	for _, call := range calls {
		if err := atOnce(callers, call); err != nil {
			return fmt.Errorf("%d at once: %w", callers, err)
		}
	}
	if err := atOnce(callers, func(i int) error { return calls[i%len(calls)](i) }); err != nil {
		return fmt.Errorf("%d at once: %w", callers, err)
	}
	return nil
}

// reads are the calls that read. Each gets the number of its caller, and returns an error unless the answer is right.
func (t *trial) reads(ctx context.Context, instances []Instance) []func(i int) error {
	of := func(i int) Instance { return instances[i%len(instances)] }
	calls := []func(i int) error{
		func(i int) error {
			exists, err := t.v2().InstanceExists(ctx, t.asked(of(i).ProviderID))
			if err == nil && !exists {
				err = errors.New("false, and no error")
			}
			if err != nil {
				err = fmt.Errorf("InstanceExists of %s, which exists: %w", of(i).NodeName, err)
			}
			return err
		},
		func(i int) error {
			if _, err := t.v2().InstanceShutdown(ctx, t.asked(of(i).ProviderID)); !allowed(err) {
				return fmt.Errorf("InstanceShutdown of %s, which exists: %w", of(i).NodeName, err)
			}
			return nil
		},
		func(i int) error {
			metadata, err := t.metadataOf(ctx, of(i))
			if err == nil && metadata.ProviderID != of(i).ProviderID {
				err = fmt.Errorf("InstanceMetadata of %s: provider ID %q; the instance has %q", of(i).NodeName, metadata.ProviderID, of(i).ProviderID)
			}
			return err
		},
	}
	balancers, ok := t.Cloud.LoadBalancer()
	if !ok {
		return calls
	}
	service := t.service()
	return append(calls, func(int) error {
		_, exists, err := balancers.GetLoadBalancer(ctx, t.options.ClusterName, service.DeepCopy())
		if err != nil && !errors.Is(err, provider.ErrImplementedElsewhere) || exists {
			return fmt.Errorf("GetLoadBalancer of a service that has none: %t, %w", exists, orNil(err))
		}
		return nil
	})
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
