package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func audits(level auditv1.Level) bool { return level != "" && level != auditv1.LevelNone }

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// AuditEvents returns every request that kube-apiserver has answered so far, in the order of their answers, with user,
// verb, object and response. A request that a client has the whole answer of is among them; a watch is when it has ended.
// It needs Options.Audit.
func (c *Cluster) AuditEvents() ([]auditv1.Event, error) {
	if !audits(c.options.Audit) {
		return nil, errors.New("read the audit log: there is none, set Options.Audit")
	}
	file, err := os.Open(c.auditLog())
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	var events []auditv1.Event
	for decoder := json.NewDecoder(file); ; {
		var event auditv1.Event
		err := decoder.Decode(&event)
		// An entry that is being written right now belongs to a request whose answer nobody has yet.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log %s: %w", c.auditLog(), err)
		}
		events = append(events, event)
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
