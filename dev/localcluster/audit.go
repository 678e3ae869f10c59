package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/program"
)

func audits(level auditv1.Level) bool { return level != "" && level != auditv1.LevelNone }

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// AuditEvents returns every request that kube-apiserver has answered so far, with user, verb, object and response. The order is the order of the
// answers. It includes each request whose whole answer a client has, and each write whose effect a client has seen. For that it waits for writes
// under way, unless StopAPIServer cut them off. It includes a watch when the watch has ended. It needs Options.Audit. Later calls share the result,
// which callers must not change.
func (c *Cluster) AuditEvents(ctx context.Context) ([]auditv1.Event, error) {
	if !audits(c.options.Audit) {
		return nil, errors.New("read the audit log: there is none, set Options.Audit")
	}
	_, underWay, err := c.audit.read(c.auditLog())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var events []auditv1.Event
	err = program.Await(ctx, "writes under way are answered", nil, func(context.Context) (err error) {
		var still map[types.UID]string
		events, still, err = c.audit.read(c.auditLog())
		for id, uri := range underWay {
			if still[id] != "" {
				err = errors.Join(err, fmt.Errorf("no answer yet to a write to %s", uri))
			}
		}
		return err
	})
	return events, err
}

// auditLogSize is so large, in megabytes, that kube-apiserver rotates no log: it would after 100 MB, some 15,000 nodes that join, and
// what is in the old file would be missing.
const auditLogSize = "1000000"

// answerTimeout is how long a write that was received may take until it is answered.
const answerTimeout = time.Minute

// auditTrail is what was read of an audit log. The log only grows, and is read on from where the last reading ended.
type auditTrail struct {
	mu     sync.Mutex
	offset int64
	events []auditv1.Event
	// underWay are the addresses of the writes that were received and have no answer yet, by audit ID.
	underWay map[types.UID]string
}

// read returns the requests that were answered, and the writes that are under way.
func (a *auditTrail) read(path string) ([]auditv1.Event, map[types.UID]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	if end, err := file.Seek(0, io.SeekEnd); err != nil {
		return nil, nil, fmt.Errorf("read the audit log: %w", err)
	} else if end < a.offset {
		return nil, nil, fmt.Errorf("read the audit log %s: it has %d bytes of which %d were read; something has rotated or cut it", path, end, a.offset)
	}
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, nil, fmt.Errorf("read the audit log: %w", err)
	}
	decoder, began := json.NewDecoder(file), a.offset
	for {
		var event auditv1.Event
		err := decoder.Decode(&event)
		// An incomplete entry belongs to a request whose answer no client has yet.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return slices.Clip(a.events), maps.Clone(a.underWay), nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the audit log %s: %w", path, err)
		}
		a.add(event)
		a.offset = began + decoder.InputOffset()
	}
}

// abandon stops the wait for requests that an ended server did not answer.
func (a *auditTrail) abandon(path string) error {
	_, _, err := a.read(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.underWay)
	return err
}

func (a *auditTrail) add(event auditv1.Event) {
	if event.Stage == auditv1.StageRequestReceived {
		if a.underWay == nil {
			a.underWay = map[types.UID]string{}
		}
		a.underWay[event.AuditID] = event.RequestURI
		return
	}
	delete(a.underWay, event.AuditID)
	a.events = append(a.events, event)
}

// writeVerbs are those of requests that change something.
var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

// auditPolicy has one entry for a request, with its outcome, and one more for a write, when it comes in: its effect may be seen
// before it is answered.
func auditPolicy(level auditv1.Level) *auditv1.Policy {
	return &auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageResponseStarted},
		Rules: []auditv1.PolicyRule{
			{Level: level, Verbs: writeVerbs},
			{Level: level, OmitStages: []auditv1.Stage{auditv1.StageRequestReceived}},
		},
	}
}

// IsWrite reports whether a request changed something, or would have.
func IsWrite(event auditv1.Event) bool { return slices.Contains(writeVerbs, event.Verb) }
