package tiny

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/provider"

	"example.com/tiny-ccm/tinycloud"
)

// errNotFound is the cloud's own word that something does not exist.
var errNotFound = errors.New("not found")

// client calls the cloud's API.
type client struct {
	endpoint string
	http     *http.Client
}

// do makes a call and decodes its answer. The call ends with its context.
func (c client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %w", method, path, refusal(response, data))
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: decoding the answer: %w", method, path, err)
	}
	return nil
}

// refusal gives the cloud's refusal the type by which the manager decides.
func refusal(response *http.Response, body []byte) error {
	var said tinycloud.Error
	_ = json.Unmarshal(body, &said) // What is not JSON is not of the cloud, and then said is empty.
	err := fmt.Errorf("status %d: %s", response.StatusCode, said.Message)
	switch response.StatusCode {
	case http.StatusNotFound:
		if said.Code == "not_found" { // The 404 of a proxy says nothing about what exists.
			return fmt.Errorf("%w: %w", errNotFound, err)
		}
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return provider.Throttled(time.Duration(seconds)*time.Second, err)
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return provider.Terminal(err)
	}
	return err
}
