package cloudsim

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

const (
	// snapshotTTL is how long a list waits for the request of its next page.
	snapshotTTL = time.Minute
	// maxSnapshots bounds the lists that are being read at one time; the one that waited longest is given up.
	maxSnapshots = 256
)

// page is api.Page as the service writes it.
type page struct {
	Items         []any  `json:"items"`
	NextPageToken string `json:"nextPageToken,omitempty"`
	TotalCount    int    `json:"totalCount"`
}

// snapshot is a list from which pages are still to be read.
type snapshot struct {
	op    api.Operation
	items []any
	used  time.Time
}

// snapshots hold the lists that are being read, so the pages of one list are of one moment. They are of the process:
// after a restart their tokens have expired.
type snapshots struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	open  map[string]*snapshot
}

func newSnapshots(c clock.PassiveClock) *snapshots {
	return &snapshots{clock: c, open: map[string]*snapshot{}}
}

// first returns the first page of a list, and keeps the rest for clients that come with its token.
func (s *snapshots) first(op api.Operation, items []any, size int) page {
	if len(items) <= size {
		return page{Items: items, TotalCount: len(items)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.expire(now)
	s.makeRoom()
	id := rand.Text()
	s.open[id] = &snapshot{op: op, items: items, used: now}
	return page{Items: items[:size], NextPageToken: token(id, size), TotalCount: len(items)}
}

// next returns the page that a token stands for.
func (s *snapshots) next(op api.Operation, pageToken string, size int) (page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.expire(now)
	id, from, ok := parseToken(pageToken)
	if !ok {
		return page{}, invalidField("pageToken", pageToken, "is not a token that this API gave")
	}
	list := s.open[id]
	if list == nil || from >= len(list.items) {
		return page{}, &api.Error{
			Status: http.StatusGone, Code: api.CodePageTokenExpired,
			Message: "the list of this page token is no longer held; list again from the first page",
		}
	}
	if list.op != op {
		return page{}, invalidField("pageToken", pageToken, "belongs to "+string(list.op))
	}
	list.used = now
	to := min(from+size, len(list.items))
	answer := page{Items: list.items[from:to], TotalCount: len(list.items)}
	if to < len(list.items) {
		answer.NextPageToken = token(id, to)
	}
	return answer, nil
}

// expire drops the lists that waited too long.
func (s *snapshots) expire(now time.Time) {
	maps.DeleteFunc(s.open, func(_ string, list *snapshot) bool { return now.Sub(list.used) >= snapshotTTL })
}

// makeRoom drops the list that waited longest if there are too many.
func (s *snapshots) makeRoom() {
	if len(s.open) < maxSnapshots {
		return
	}
	oldest := ""
	for id, list := range s.open {
		if oldest == "" || list.used.Before(s.open[oldest].used) {
			oldest = id
		}
	}
	delete(s.open, oldest)
}

func token(id string, from int) string { return id + "." + strconv.Itoa(from) }

func parseToken(pageToken string) (id string, from int, ok bool) {
	id, offset, found := strings.Cut(pageToken, ".")
	from, err := strconv.Atoi(offset)
	return id, from, found && err == nil && from > 0 && id != ""
}

// pageSize is the size that a request may choose, up to the size of the knob.
func pageSize(query url.Values, most int) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return most, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, invalidField("limit", text, "must be a number of at least 1")
	}
	return min(limit, most), nil
}
