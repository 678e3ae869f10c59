package instances

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// snapshot is all instances of the cloud at one time, indexed.
type snapshot struct {
	byProviderID map[string]*entry
	byName       map[types.NodeName]*entry
	// pages is how many the listing had.
	pages int
	// bytes is about how much memory the instances take.
	bytes int
	// namesakes are the instances beyond the first that claim a name.
	namesakes map[types.NodeName][]*entry
	// forms are the instances by what spellings of their provider IDs have in common, nil where several share it. They are made
	// when they are needed.
	forms atomic.Pointer[map[string]*entry]
	// indistinguishable are the instances that were left out, nil if none were.
	indistinguishable *indistinguishable
}

// entry is one instance. Snapshots share the entries of instances that have not changed, and an entry is never changed.
type entry struct {
	provider.Instance
	// listing is the number of the last listing that showed it. It belongs to the listings, of which there is one at a time.
	listing uint64
	// bytes is about how much memory it takes.
	bytes int
}

func newSnapshot(size int) *snapshot {
	return &snapshot{
		byProviderID: make(map[string]*entry, size), byName: make(map[types.NodeName]*entry, size),
		namesakes: map[types.NodeName][]*entry{},
	}
}

// newEntry copies what a provider showed, so it can be kept: the provider may reuse its memory. Strings that many
// instances have in common are kept once.
func newEntry(instance provider.Instance) *entry {
	metadata := &instance.InstanceMetadata
	metadata.Zone, metadata.Region = shareString(metadata.Zone), shareString(metadata.Region)
	metadata.InstanceType = shareString(metadata.InstanceType)
	metadata.NodeAddresses = slices.Clone(metadata.NodeAddresses)
	for i := range metadata.NodeAddresses {
		metadata.NodeAddresses[i].Type = shareString(metadata.NodeAddresses[i].Type)
	}
	if metadata.AdditionalLabels != nil {
		labels := make(map[string]string, len(metadata.AdditionalLabels))
		for key, value := range metadata.AdditionalLabels {
			labels[shareString(key)] = shareString(value)
		}
		metadata.AdditionalLabels = labels
	}
	return &entry{Instance: instance, bytes: bounds.Size(metadata, string(instance.NodeName))}
}

// shareString returns the one copy of a string that all who call it have.
func shareString[T ~string](s T) T { return unique.Make(s).Value() }

// shows reports whether an entry shows an instance as it is.
func (e *entry) shows(instance *provider.Instance) bool {
	return e.ProviderID == instance.ProviderID && e.NodeName == instance.NodeName && e.State == instance.State &&
		e.InstanceType == instance.InstanceType && e.Zone == instance.Zone && e.Region == instance.Region &&
		slices.Equal(e.NodeAddresses, instance.NodeAddresses) && maps.Equal(e.AdditionalLabels, instance.AdditionalLabels)
}

// put adds an instance or replaces the one with its provider ID.
func (s *snapshot) put(e *entry) {
	s.remove(e.ProviderID)
	s.forms.Store(nil)
	s.byProviderID[e.ProviderID] = e
	s.bytes += e.bytes
	if e.NodeName == "" {
		return
	}
	if _, taken := s.byName[e.NodeName]; taken {
		s.namesakes[e.NodeName] = append(s.namesakes[e.NodeName], e)
		return
	}
	s.byName[e.NodeName] = e
}

// remove takes an instance out, if it is there.
func (s *snapshot) remove(providerID string) {
	e, ok := s.byProviderID[providerID]
	if !ok {
		return
	}
	delete(s.byProviderID, providerID)
	s.bytes -= e.bytes
	s.forms.Store(nil)
	others := s.namesakes[e.NodeName]
	switch {
	case e.NodeName == "":
	case s.byName[e.NodeName] != e:
		others = slices.DeleteFunc(others, func(other *entry) bool { return other == e })
	case len(others) > 0:
		s.byName[e.NodeName], others = others[0], others[1:]
	default:
		delete(s.byName, e.NodeName)
	}
	if len(others) > 0 {
		s.namesakes[e.NodeName] = others
	} else {
		delete(s.namesakes, e.NodeName)
	}
}

// formOf returns what different spellings of one provider ID have in common: clouds answer with the case that a resource was made
// with, and the segment for the zone may be left empty.
func formOf(providerID string) string {
	var form strings.Builder
	form.Grow(len(providerID))
	slash := false
	for _, r := range strings.ToLower(providerID) {
		if r != '/' || !slash {
			form.WriteRune(r)
		}
		slash = r == '/'
	}
	return form.String()
}

// formsOf returns the form of a provider ID, and the one without its scheme: kubelets set IDs without any, and plugins accept them.
func formsOf(providerID string) []string {
	form := formOf(providerID)
	if _, bare, found := strings.Cut(form, ":/"); found {
		return []string{form, bare}
	}
	return []string{form}
}

// alike returns the one instance that has a node's provider ID in another spelling, and no other name. Nil: there is no such instance, or it
// cannot be told.
func (s *snapshot) alike(node *corev1.Node) *entry {
	forms := s.forms.Load()
	if forms == nil {
		all := make(map[string]*entry, 2*len(s.byProviderID))
		add := func(id string, e *entry) {
			for _, form := range formsOf(id) {
				if _, taken := all[form]; taken {
					all[form] = nil
				} else {
					all[form] = e
				}
			}
		}
		for id, e := range s.byProviderID {
			add(id, e)
		}
		if s.indistinguishable != nil {
			for id := range s.indistinguishable.twice {
				add(id, nil)
			}
		}
		forms = &all
		s.forms.Store(forms)
	}
	e := (*forms)[formOf(node.Spec.ProviderID)]
	if e != nil && e.NodeName != "" && e.NodeName != types.NodeName(node.Name) {
		return nil
	}
	return e
}

// find returns what the snapshot says of a node: by its provider ID if it has one, by its name if not. That there is none it only says
// if no instance was left out.
func (s *snapshot) find(node *corev1.Node, at time.Time) (Observation, error) {
	observation := Observation{Status: NotFound, At: at, Listed: len(s.byProviderID)}
	instance := s.byProviderID[node.Spec.ProviderID]
	if node.Spec.ProviderID == "" {
		name := types.NodeName(node.Name)
		if err := s.indistinguishable.of(name); err != nil {
			return Observation{}, err
		}
		if len(s.namesakes[name]) > 0 {
			return Observation{}, &AmbiguousNameError{Name: name, ProviderIDs: s.claiming(name)}
		}
		instance = s.byName[name]
	} else if instance == nil {
		instance = s.alike(node)
	}
	if instance == nil {
		if err := s.indistinguishable.err(); err != nil {
			return Observation{}, err
		}
		return observation, nil
	}
	observation.Status = Found
	observation.State = instance.State
	observation.Metadata = instance.InstanceMetadata
	observation.Answered = instance.ProviderID
	return observation, nil
}

// claiming returns the provider IDs of the instances that claim a name, sorted.
func (s *snapshot) claiming(name types.NodeName) []string {
	ids := []string{s.byName[name].ProviderID}
	for _, other := range s.namesakes[name] {
		ids = append(ids, other.ProviderID)
	}
	slices.Sort(ids)
	return ids
}

// answersAll reports whether the snapshot, made at a time, answers for all nodes when it is asked at another.
func (s *snapshot) answersAll(nodes []*corev1.Node, at, asked time.Time) bool {
	for _, node := range nodes {
		observation, err := s.find(node, at)
		if !conclusive(observation, err, at, asked) {
			return false
		}
	}
	return true
}

// conclusive reports whether an answer can stand: that an instance is there may be said by an older answer, that it is not,
// or not by itself, only by one that was sought after the question was asked.
func conclusive(observation Observation, err error, at, asked time.Time) bool {
	return !at.Before(asked) || err == nil && observation.Status == Found
}

// assembly makes a snapshot of the pages of one listing. Of an instance that is as it was in the snapshot before, nothing is
// kept but that; so a listing never holds the instances twice, and one that shows nothing new costs no memory.
type assembly struct {
	before *snapshot
	// number is the listing's, greater than the number of any before it.
	number uint64
	same   int
	most   limits
	// pages is how many there were, and bytes about how much memory the instances on them take.
	pages, bytes int
	// changed are the instances that the snapshot before does not have, or not as they are.
	changed map[string]*entry
	// indistinguishable are the instances that are left out.
	indistinguishable *indistinguishable
}

// flawBytes is about how much memory an instance takes that is left out, beside its name.
const flawBytes = 512

// limits are how much of a listing is kept.
type limits struct {
	instances, bytes, pages int
}

// mostListed are the limits: ten times the largest accounts that are known, and the memory that the instances of 10,000 nodes take that
// are each at their bounds.
var mostListed = limits{instances: 250_000, bytes: 512 << 20, pages: 100_000}

// add takes a page over, or refuses the whole listing.
func (a *assembly) add(page []provider.Instance) error {
	if a.pages++; a.pages > a.most.pages {
		return &InvalidListError{Problem: fmt.Sprintf("it has more than %d pages", a.most.pages)}
	}
	for i := range page {
		a.take(page[i])
		if err := a.most.allow(a.size()+a.indistinguishable.left(), a.bytes); err != nil {
			return err
		}
	}
	return nil
}

// take takes an instance over, or leaves it out, and with it another one that it cannot be told from.
func (a *assembly) take(instance provider.Instance) {
	if problem, err := problemOf(&instance); problem != "" {
		a.leaveOut(instance.NodeName, problem, err)
		return
	}
	instance.InstanceMetadata = bounds.Trim(instance.InstanceMetadata)
	id := instance.ProviderID
	known, old := a.changed[id], a.before.byProviderID[id]
	if known == nil && old != nil && old.listing == a.number {
		known = old
	}
	switch {
	case known != nil:
		problem := fmt.Sprintf("the provider ID %q occurs twice, with the node names %q and %q", message.Line(id, maxShown),
			message.Line(string(known.NodeName), maxShown), message.Line(string(instance.NodeName), maxShown))
		err := &InvalidListError{Problem: problem, LeftOut: 2}
		a.leaveOut(known.NodeName, problem, err)
		a.leaveOut(instance.NodeName, problem, err)
		a.indistinguishable.twice[id] = true
		a.bytes += len(id) - known.bytes
		if known == old {
			old.listing = 0
			a.same--
		} else {
			delete(a.changed, id)
		}
	case a.indistinguishable != nil && a.indistinguishable.twice[id]:
		problem := fmt.Sprintf("the provider ID %q occurs more than twice, once with the node name %q", message.Line(id, maxShown),
			message.Line(string(instance.NodeName), maxShown))
		a.leaveOut(instance.NodeName, problem, &InvalidListError{Problem: problem, LeftOut: 1})
	case old != nil && old.shows(&instance):
		old.listing = a.number
		a.same++
		a.bytes += old.bytes
	default:
		made := newEntry(instance)
		a.changed[id] = made
		a.bytes += made.bytes
	}
}

// leaveOut notes an instance that is not in the snapshot.
func (a *assembly) leaveOut(name types.NodeName, problem string, err error) {
	name = types.NodeName(strings.Clone(string(name)))
	a.indistinguishable = a.indistinguishable.add(name, problem, err)
	a.bytes += flawBytes + len(name)
}

// allow returns an error if so many instances are more than are kept.
func (l limits) allow(count, bytes int) error {
	if count > l.instances || bytes > l.bytes {
		return &InvalidListError{Problem: fmt.Sprintf("it has %d instances or more and takes %d MiB of memory; at most %d and %d MiB are kept",
			count, bytes>>20, l.instances, l.bytes>>20)}
	}
	return nil
}

// size returns how many instances there were on the pages.
func (a *assembly) size() int { return a.same + len(a.changed) }

// finish returns the snapshot of the whole listing, which is the one before if nothing has changed.
func (a *assembly) finish() *snapshot {
	whole := a.indistinguishable == nil && a.before.indistinguishable == nil
	if whole && len(a.changed) == 0 && a.same == len(a.before.byProviderID) && a.pages == a.before.pages {
		return a.before
	}
	built := newSnapshot(a.size())
	built.pages, built.indistinguishable = a.pages, a.indistinguishable
	for _, e := range a.before.byProviderID {
		if e.listing == a.number {
			built.put(e)
		}
	}
	for _, e := range a.changed {
		e.listing = a.number
		built.put(e)
	}
	return built
}
