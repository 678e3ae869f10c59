package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/message"
)

// DefaultTimeout is the deadline of a call when ClientOptions.Timeout is zero.
const DefaultTimeout = 10 * time.Second

// maxAnswerBytes bounds what is read of one answer. A page of 10,000 instances with ten addresses each is below 20 MiB.
const maxAnswerBytes = 64 << 20

// The bounds of answers besides: what is read of a refusal, how many elements a page and a list may have, and how long a text of the
// cloud may be where it is shown. The cloud itself makes pages of at most 10,000 elements. See ADR 6.
const (
	maxRefusalBytes = 64 << 10
	maxPageItems    = 10_000
	maxListItems    = 1_000_000
	maxShownBytes   = 200
	maxErrorBytes   = 4000
)

// ClientOptions say how a client finds the cloud and who it is.
type ClientOptions struct {
	// Endpoint is the URL of the cloud without /v1: "https://cloud.example:8443". Required.
	Endpoint string
	// Token returns the bearer token. It is called for every call, so a rotated token is used at once. Required.
	Token func() (string, error)
	// HTTPClient sends the calls; nil means a client with a transport of its own.
	HTTPClient *http.Client
	// Timeout is the deadline of each call, of each page of a list; zero means DefaultTimeout.
	Timeout time.Duration
}

// Client calls the cloud. It may be used by many goroutines. Every method returns an *Error if the cloud refused the call,
// an *AnswerError if its answer is not valid, and otherwise the error of net/http or of the context.
type Client struct {
	connection
}

// Admin calls the admin API of the cloud, which has a token of its own.
type Admin struct {
	connection
}

// NewClient returns a client of the cloud. It makes no call.
func NewClient(options ClientOptions) (*Client, error) {
	c, err := newConnection(options)
	return &Client{c}, err
}

// NewAdmin returns a client of the admin API. It makes no call.
func NewAdmin(options ClientOptions) (*Admin, error) {
	c, err := newConnection(options)
	return &Admin{c}, err
}

type connection struct {
	base    *url.URL
	token   func() (string, error)
	http    *http.Client
	timeout time.Duration
}

func newConnection(options ClientOptions) (connection, error) {
	base, err := url.Parse(options.Endpoint)
	if err != nil {
		return connection{}, fmt.Errorf("endpoint of the cloud: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return connection{}, fmt.Errorf("endpoint of the cloud: %q: must be a URL such as https://cloud.example:8443", options.Endpoint)
	}
	if options.Token == nil {
		return connection{}, errors.New("client of the cloud: a source of the token is required")
	}
	c := connection{base: base, token: options.Token, http: options.HTTPClient, timeout: options.Timeout}
	if c.http == nil {
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	return c, nil
}

// CloseIdleConnections closes the connections that no call uses.
func (c *connection) CloseIdleConnections() { c.http.CloseIdleConnections() }

// call is one request, and where its answer goes.
type call struct {
	op     Operation
	method string
	// path has escaped elements and starts with /v1.
	path  string
	query url.Values
	// generation is sent in If-Match unless it is zero.
	generation int64
	in         any
	out        any
}

// do sends one request with a deadline and reads its whole answer.
func (c *connection) do(ctx context.Context, call call) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, call)
	if err != nil {
		return fmt.Errorf("%s: %w", call.op, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", call.op, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		return refusal(call.op, response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return &AnswerError{Operation: call.op, Err: fmt.Errorf("reading it: %w", err)}
	}
	if err := decode(response.Header.Get("Content-Type"), body, call.out); err != nil {
		return &AnswerError{Operation: call.op, Err: err}
	}
	return nil
}

func (c *connection) request(ctx context.Context, call call) (*http.Request, error) {
	var body io.Reader
	if call.in != nil {
		data, err := json.Marshal(call.in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	target := strings.TrimSuffix(c.base.String(), "/") + call.path
	if len(call.query) > 0 {
		target += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.method, target, body)
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	if call.in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if call.generation != 0 {
		request.Header.Set("If-Match", ETag(call.generation))
	}
	return request, nil
}

// decode accepts JSON that is declared as JSON, whole and followed by nothing.
func decode(contentType string, body []byte, out any) error {
	if out == nil {
		return nil
	}
	if len(body) > maxAnswerBytes {
		return fmt.Errorf("it is longer than %d bytes", maxAnswerBytes)
	}
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
		return fmt.Errorf("its content type is %q, not application/json: is the endpoint a simulated cloud?",
			message.Line(contentType, maxShownBytes))
	}
	return message.Bound(json.Unmarshal(body, out), maxShownBytes)
}

// refusal reads the error in an answer. An answer without one comes from something before the cloud, a proxy for example:
// it has no code, so its 404 is never taken for "no such instance". Nor is that said by another status: nodes are deleted by it.
func refusal(op Operation, response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusalBytes)) // half a refusal is one too
	var parsed ErrorBody
	_ = json.Unmarshal(withoutToken(body, response.Request), &parsed)
	answer := parsed.Error
	answer.Operation = op
	answer.Status = response.StatusCode
	answer.checkCode()
	if seconds, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		answer.RetryAfter = time.Duration(seconds) * time.Second
	}
	return &answer
}

// checkCode takes the code away that does not come with the status.
func (e *Error) checkCode() {
	if e.Code == CodeNotFound && e.Status != http.StatusNotFound {
		e.Code = ""
	}
}

// withoutToken returns what was answered without the token of the request: what is before a cloud may repeat what it was sent, and the
// message of an error becomes an event that everybody may read.
func withoutToken(body []byte, request *http.Request) []byte {
	_, token, _ := strings.Cut(request.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		return body
	}
	return bytes.ReplaceAll(body, []byte(token), []byte("TOKEN"))
}

// ETag returns the entity tag of a generation (RFC 9110 section 8.8.3).
func ETag(generation int64) string { return strconv.Quote(strconv.FormatInt(generation, 10)) }

// list calls an operation page by page and hands the pages to yield. It returns nil only when every element that the cloud
// announced was seen exactly once.
func list[T any](ctx context.Context, c *connection, op Operation, path string, query url.Values,
	key func(T) string, yield func([]T) error,
) error {
	if query == nil {
		query = url.Values{}
	}
	seen := map[string]bool{}
	want := -1
	for {
		page, err := getPage[T](ctx, c, op, path, query)
		if err != nil {
			return err
		}
		if want == -1 {
			want = *page.TotalCount
		}
		if err := checkPage(op, page, want, seen, key); err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if err := yield(page.Items); err != nil {
				return err
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

// getPage returns one page, with items and a count.
func getPage[T any](ctx context.Context, c *connection, op Operation, path string, query url.Values) (Page[T], error) {
	var answer struct {
		Items         json.RawMessage `json:"items"`
		NextPageToken string          `json:"nextPageToken"`
		TotalCount    *int            `json:"totalCount"`
	}
	invalid := func(err error) (Page[T], error) { return Page[T]{}, &AnswerError{Operation: op, Err: err} }
	if err := c.do(ctx, call{op: op, method: http.MethodGet, path: path, query: query, out: &answer}); err != nil {
		return Page[T]{}, err
	}
	items, err := decodeItems[T](answer.Items)
	switch {
	case err != nil:
		return invalid(err)
	case items == nil || answer.TotalCount == nil:
		return invalid(errors.New("a page without items or totalCount"))
	case *answer.TotalCount < 0 || *answer.TotalCount > maxListItems:
		return invalid(fmt.Errorf("a list of %d elements; at most %d are read", *answer.TotalCount, maxListItems))
	}
	return Page[T]{Items: items, NextPageToken: answer.NextPageToken, TotalCount: answer.TotalCount}, nil
}

// decodeItems decodes the elements of a page one by one: an element takes a hundred times the memory of "{}", so they are counted
// before they are all there. It returns nil if there is no list.
func decodeItems[T any](data json.RawMessage) ([]T, error) {
	if len(data) == 0 || data[0] != '[' {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	_, err := decoder.Token()
	items := []T{}
	for err == nil && decoder.More() {
		if len(items) == maxPageItems {
			return nil, fmt.Errorf("a page of more than %d elements", maxPageItems)
		}
		var item T
		err = decoder.Decode(&item)
		items = append(items, item)
	}
	return items, message.Bound(err, maxShownBytes)
}

// checkPage adds a page's elements to seen and returns an error when the pages cannot add up to the announced list.
func checkPage[T any](op Operation, page Page[T], want int, seen map[string]bool, key func(T) string) error {
	incomplete := func(reason string) error {
		return &IncompleteListError{Operation: op, Got: len(seen), Want: want, Reason: reason}
	}
	if *page.TotalCount != want {
		return incomplete(fmt.Sprintf("a later page announces %d", *page.TotalCount))
	}
	for _, item := range page.Items {
		k := key(item)
		if k == "" {
			return &AnswerError{Operation: op, Err: errors.New("an element without an ID")}
		}
		if seen[k] {
			return incomplete(message.Line(k, maxShownBytes) + " is in it twice")
		}
		seen[k] = true
	}
	switch {
	case page.NextPageToken == "" && len(seen) != want:
		return incomplete("no next page")
	case page.NextPageToken != "" && len(page.Items) == 0:
		return incomplete("a page without elements announces another")
	case len(seen) > want:
		return incomplete("more elements than announced")
	default:
		return nil
	}
}
