package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func audits(level auditv1.Level) bool { return level != "" && level != auditv1.LevelNone }

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// AuditEvents returns every request that kube-apiserver has answered so far, in the order of their answers, with user,
// verb, object and response. A request that a client has the whole answer of is among them; a watch is when it has ended.
// It needs Options.Audit. What it returns is shared with later calls, and not to be changed.
func (c *Cluster) AuditEvents() ([]auditv1.Event, error) {
	if !audits(c.options.Audit) {
		return nil, errors.New("read the audit log: there is none, set Options.Audit")
	}
	return c.audit.read(c.auditLog())
}

// auditTrail is what was read of an audit log. The log only grows, and is read on from where the last reading ended.
type auditTrail struct {
	mu     sync.Mutex
	offset int64
	events []auditv1.Event
}

func (a *auditTrail) read(path string) ([]auditv1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	decoder, began := json.NewDecoder(file), a.offset
	for {
		var event auditv1.Event
		err := decoder.Decode(&event)
		// An entry that is being written right now belongs to a request whose answer nobody has yet.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return slices.Clip(a.events), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log %s: %w", path, err)
		}
		a.events, a.offset = append(a.events, event), began+decoder.InputOffset()
	}
}

// IsWrite reports whether a request changed something, or would have.
func IsWrite(event auditv1.Event) bool {
	switch event.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	default:
		return false
	}
}
