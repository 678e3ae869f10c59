package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/internal/message"
)

// PathInstanceChanges is the path of the stream of changes.
const PathInstanceChanges = "/v1/instancechanges"

// ContentTypeChanges is the content type of a stream of changes: an InstanceChange in JSON on each line.
const ContentTypeChanges = "application/x-ndjson"

// ChangeKind says what an InstanceChange reports.
type ChangeKind string

// The kinds of changes.
const (
	// ChangeSet is an instance that exists, as it is at the revision.
	ChangeSet ChangeKind = "set"
	// ChangeDeleted is an instance that is no more.
	ChangeDeleted ChangeKind = "deleted"
	// ChangeMark says that all changes up to the revision have been reported.
	ChangeMark ChangeKind = "mark"
)

// InstanceChange is one line of the stream of changes.
type InstanceChange struct {
	// Kind says what happened.
	Kind ChangeKind `json:"kind"`
	// Revision counts the changes of all instances, over the life of the state file.
	Revision int64 `json:"revision"`
	// Instance is what a set instance is like.
	Instance *Instance `json:"instance,omitempty"`
	// ID is which instance was deleted.
	ID string `json:"id,omitempty"`
}

// FromBeginning is the revision before everything: the stream begins with all instances that exist, and a mark.
const FromBeginning int64 = -1

// maxChangeBytes bounds one line of the stream.
const maxChangeBytes = 1 << 20

// WatchInstances hands changes to yield until ctx ends, from the revision on that a mark showed, or FromBeginning. The cloud
// makes a mark at least every other second. The error is never nil: an *Error with CodeRevisionExpired if the cloud does not
// remember what happened since, an error of yield as it is, or why the stream ended. A stream that has gone silent is not
// noticed: the cloud has to answer within the client's timeout, but what comes then may take any time.
func (c *Client) WatchInstances(ctx context.Context, since int64, yield func(InstanceChange) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := call{op: OpWatchInstances, method: http.MethodGet, path: PathInstanceChanges}
	if since != FromBeginning {
		watch.query = url.Values{"since": {strconv.FormatInt(since, 10)}}
	}
	request, err := c.request(ctx, watch)
	if err != nil {
		return fmt.Errorf("%s: %w", watch.op, err)
	}
	opening := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("no answer within %s: %w", c.timeout, context.DeadlineExceeded)) })
	defer opening.Stop()
	response, err := c.http.Do(request)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%s: %w", watch.op, cause)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", watch.op, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		return refusal(watch.op, response)
	}
	opening.Stop()
	if media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || media != ContentTypeChanges {
		return &AnswerError{Operation: watch.op, Err: fmt.Errorf("its content type is %q, not %s: is the endpoint a simulated cloud?",
			message.Line(response.Header.Get("Content-Type"), maxShownBytes), ContentTypeChanges)}
	}
	return readChanges(watch.op, response.Body, yield)
}

// readChanges hands on one line after the other.
func readChanges(op Operation, body io.Reader, yield func(InstanceChange) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), maxChangeBytes)
	for lines.Scan() {
		var change InstanceChange
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			return &AnswerError{Operation: op, Err: message.Bound(err, maxShownBytes)}
		}
		if err := change.check(); err != nil {
			return &AnswerError{Operation: op, Err: err}
		}
		if err := yield(change); err != nil {
			return err
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: the stream ended: %w", op, err)
}

func (c InstanceChange) check() error {
	switch {
	case c.Kind == ChangeMark:
		return nil
	case c.Kind == ChangeDeleted && c.ID != "":
		return nil
	case c.Kind == ChangeSet && c.Instance != nil && c.Instance.ID != "" && c.Instance.Name != "" && c.Instance.State != "":
		return nil
	case c.Kind == ChangeSet:
		return errors.New("a set instance without id, name or state")
	default:
		return fmt.Errorf("a change of kind %q of instance %q", message.Line(string(c.Kind), maxShownBytes), message.Line(c.ID, maxShownBytes))
	}
}
