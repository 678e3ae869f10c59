package standin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/mooring-ccm/mooring/dev/plugins/aws/wire"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// accessKey is the ID of the key that requests have to be signed with. Signatures themselves are not checked.
const accessKey = "AKIDSCENARIO"

// refusal is an error of the API.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.code + ": " + r.message }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// operation is an action of a service. Call reads the request, carries it out, and returns output and input.
type operation struct {
	changes bool
	call    func(*Cloud, wire.Protocol, url.Values) (output, input any, unknown []string, err error)
}

// reads is an action that changes nothing, writes one that does.
func reads[I, O any](do func(*Cloud, *I) (*O, error)) operation  { return operation{call: calling(do)} }
func writes[I, O any](do func(*Cloud, *I) (*O, error)) operation { return operation{true, calling(do)} }

func calling[I, O any](do func(*Cloud, *I) (*O, error)) func(*Cloud, wire.Protocol, url.Values) (any, any, []string, error) {
	return func(c *Cloud, protocol wire.Protocol, form url.Values) (any, any, []string, error) {
		input := new(I)
		unknown, err := protocol.Decode(form, input)
		if err != nil {
			return nil, input, unknown, refuse("InvalidParameterValue", "%v", err)
		}
		output, err := do(c, input)
		return output, input, unknown, err
	}
}

// ServeHTTP answers one call. Calls are worked on one after the other.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		c.problem("a request cannot be read: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	service, found := services[r.PostForm.Get("Version")]
	if !found {
		c.problem("%s %s with the parameters %v is for no service that is known", r.Method, r.URL, r.PostForm)
		http.Error(w, "no such service", http.StatusNotFound)
		return
	}
	request := fmt.Sprintf("request-%d", len(c.calls)+1)
	output, err := c.carryOut(service, r)
	status, body := http.StatusOK, []byte(nil)
	var refused *refusal
	switch {
	case err == nil:
		body, err = service.protocol.Encode(r.PostForm.Get("Action"), request, output)
	case errors.As(err, &refused):
		status = http.StatusBadRequest
		body, err = service.protocol.EncodeError(request, refused.code, refused.message)
	}
	if err != nil {
		c.problem("%v", err)
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// carryOut does what a request asks for, and records it.
func (c *Cloud) carryOut(service service, r *http.Request) (any, error) {
	action := r.PostForm.Get("Action")
	call := compare.Call{Action: service.name + " " + action}
	operation, found := service.operations[action]
	if !found {
		c.problem("there is no action %s in this stand-in of %s", action, service.name)
		return nil, refuse("InvalidAction", "the action %s is not valid", action)
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+accessKey+"/") {
		return nil, refuse("AuthFailure", "the request is not signed with a key that is known")
	}
	output, input, unknown, err := operation.call(c, service.protocol, r.PostForm)
	if len(unknown) > 0 {
		c.problem("%s has parameters that are not known here: %v", call.Action, unknown)
	}
	if operation.changes {
		call.Change = canonical(input)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		call.Error = refused.code
	}
	c.calls = append(c.calls, call)
	return output, err
}

func (c *Cloud) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}
