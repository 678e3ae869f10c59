package apiserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// objectKey identifies an object within its table.
type objectKey struct{ namespace, name string }

// path is the order of etcd's keys.
func (k objectKey) path() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// entry is one version of an object. It never changes.
type entry struct {
	object  runtime.Object
	meta    metav1.Object
	version int64
	fields  fields.Set

	mu      sync.Mutex
	encoded map[string][]byte
}

func (e *entry) key() objectKey { return objectKey{e.meta.GetNamespace(), e.meta.GetName()} }

// as returns the object as a resource shows it.
func (e *entry) as(resource *resource) runtime.Object {
	return shownService(served(resource, e.object))
}

// encode returns the bytes of the object, which are kept for the next reader.
func (e *entry) encode(resource *resource, info runtime.SerializerInfo, onlyMetadata bool) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := resource.Group + info.MediaType
	if onlyMetadata {
		key = "metadata" + info.MediaType
	}
	if encoded, ok := e.encoded[key]; ok {
		return encoded, nil
	}
	object := e.as(resource)
	if onlyMetadata {
		object = partial(e.meta)
	}
	var buffer bytes.Buffer
	if err := info.Serializer.Encode(object, &buffer); err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", resource.name, e.meta.GetName(), err)
	}
	if e.encoded == nil {
		e.encoded = map[string][]byte{}
	}
	e.encoded[key] = buffer.Bytes()
	return buffer.Bytes(), nil
}

// change is one write of a table. Before is nil for a creation; after has the new version, also of a deleted object.
type change struct {
	version       int64
	time          time.Time
	before, after *entry
	deleted       bool
}

// table keeps the objects of a resource.
type table struct {
	resource *resource
	objects  map[objectKey]*entry
	history  []change
	watchers []*watcher
}

// sorted returns objects in the order of their keys.
func sorted(objects map[objectKey]*entry) []*entry {
	return slices.SortedFunc(maps.Values(objects), func(a, b *entry) int { return strings.Compare(a.key().path(), b.key().path()) })
}

// at returns the objects as they were at a version.
func (t *table) at(version int64) map[objectKey]*entry {
	objects := maps.Clone(t.objects)
	for _, change := range slices.Backward(t.history) {
		if change.version <= version {
			break
		}
		key := change.after.key()
		if change.before == nil {
			delete(objects, key)
		} else {
			objects[key] = change.before
		}
	}
	return objects
}

func (s *Server) table(resource *resource) *table { return s.tables[resource.key()] }

// store makes a new version of an object. The lock is held, and the caller no longer changes the object.
func (s *Server) store(t *table, object runtime.Object, before *entry, deleted bool) *entry {
	s.version++
	about := mustMeta(object)
	about.SetResourceVersion(strconv.FormatInt(s.version, 10))
	after := &entry{object: object, meta: about, version: s.version, fields: t.resource.selectable(object, about)}
	if deleted {
		delete(t.objects, after.key())
	} else {
		t.objects[after.key()] = after
	}
	written := change{version: s.version, time: time.Now(), before: before, after: after, deleted: deleted}
	t.history = append(t.history, written)
	for _, watcher := range t.watchers {
		watcher.see(written)
	}
	s.forget()
	return after
}

// forget drops what is older than the server answers about.
func (s *Server) forget() {
	if s.options.CompactAfter < 0 {
		return
	}
	oldest := time.Now().Add(-s.options.CompactAfter)
	target := s.compacted
	for _, table := range s.tables {
		for _, change := range table.history {
			if change.time.After(oldest) {
				break
			}
			target = max(target, change.version)
		}
	}
	if target > s.compacted {
		s.compactTo(target)
	}
}

func (s *Server) compactTo(version int64) {
	s.compacted = version
	for _, table := range s.tables {
		keep := slices.IndexFunc(table.history, func(c change) bool { return c.version > version })
		if keep < 0 {
			keep = len(table.history)
		}
		table.history = slices.Clone(table.history[keep:])
	}
}

// draw returns a number that depends on the seed, the purpose and how often the purpose was drawn, not on other requests.
func (s *Server) draw(purpose string) uint64 {
	s.drawn[purpose]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", s.options.Seed, purpose, s.drawn[purpose]))
	return binary.BigEndian.Uint64(sum[:])
}

// uid draws the UID of an object.
func (s *Server) uid(t *table, key objectKey) types.UID {
	purpose := "uid" + t.resource.key() + "/" + key.path()
	high, low := s.draw(purpose), s.draw(purpose)
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", high>>32, high>>16&0xffff, high&0xfff, 0x8000|low>>48&0x3fff, low&0xffffffffffff))
}

func mustMeta(object runtime.Object) metav1.Object {
	about, err := meta.Accessor(object)
	if err != nil {
		panic(fmt.Sprintf("an object without metadata: %v", err)) // a mistake in the table of resources
	}
	return about
}

// selection is what a list or a watch covers.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) matches(e *entry) bool {
	return (s.namespace == "" || e.meta.GetNamespace() == s.namespace) && s.labels.Matches(labels.Set(e.meta.GetLabels())) && s.fields.Matches(e.fields)
}

func (s selection) empty() bool { return s.labels.Empty() && s.fields.Empty() }
