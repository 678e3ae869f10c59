package cloudsim

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// serveFaulty answers a call that a fault hits. Of a refusal or a hang there is no effect; otherwise the call is done and
// the answer lies about it.
func (s *Service) serveFaulty(w http.ResponseWriter, call *request, e endpoint) {
	s.log.V(1).Info("fault", "operation", e.op, "mode", call.fault.Mode)
	switch call.fault.Mode {
	case api.FaultStatus:
		refuse(w, scripted(*call.fault))
		return
	case api.FaultHang:
		refuse(w, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: "the call hung"})
		return
	}
	result, err := e.serve(call)
	switch call.fault.Mode {
	case api.FaultEmpty:
		respond(w, answer{body: emptied(e.op)})
	case api.FaultTruncate:
		truncate(w, result.body)
	case api.FaultMalformed:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items": [{"id": <html>`))
	default:
		if err != nil {
			s.refuseCall(w, e.op, err)
			return
		}
		if list, ok := result.body.(page); ok && call.fault.Mode == api.FaultShortList {
			list.NextPageToken = ""
			result.body = list
		}
		respond(w, result)
	}
}

// scripted is the refusal that a fault asks for, with the code that belongs to its status.
func scripted(fault api.Fault) *api.Error {
	codes := map[int]api.ErrorCode{
		http.StatusBadRequest: api.CodeInvalid, http.StatusUnauthorized: api.CodeUnauthenticated,
		http.StatusForbidden: api.CodeForbidden, http.StatusNotFound: api.CodeNotFound,
		http.StatusMethodNotAllowed: api.CodeMethodNotAllowed, http.StatusConflict: api.CodeConflict,
		http.StatusGone: api.CodePageTokenExpired, http.StatusPreconditionFailed: api.CodePreconditionFailed,
		http.StatusRequestEntityTooLarge: api.CodeTooLarge, http.StatusTooManyRequests: api.CodeThrottled,
		http.StatusServiceUnavailable: api.CodeUnavailable,
	}
	if fault.Operation == api.OpWatchInstances {
		codes[http.StatusGone] = api.CodeRevisionExpired
	}
	code, ok := codes[fault.Status]
	if !ok {
		code = api.CodeInternal
	}
	return &api.Error{
		Status: fault.Status, Code: code, RetryAfter: fault.RetryAfter.Duration,
		Message: fmt.Sprintf("a scripted fault of %s", fault.Operation),
	}
}

// emptied is the answer that says that there is nothing.
func emptied(op api.Operation) any {
	if op.IsList() {
		return page{Items: []any{}}
	}
	return struct{}{}
}

// truncate announces an answer and sends half of it; the server then closes the connection.
func truncate(w http.ResponseWriter, body any) {
	data, err := json.Marshal(body)
	if err != nil || body == nil {
		data = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data[:len(data)/2])
}

// wholeSeconds rounds up, since Retry-After has no fractions (RFC 9110 section 10.2.3).
func wholeSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
