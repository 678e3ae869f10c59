package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/client-go/kubernetes/scheme"
)

// Attributes say what a request asks for.
type Attributes struct {
	// Identity is the one that Client was called with.
	Identity  string
	UserAgent string
	// Verb is the verb of the API (get, list, watch, create, update, patch, delete), or the lower-case method outside of resources.
	Verb string
	// Path is the path of the URL.
	Path                                                   string
	Group, Version, Resource, Subresource, Namespace, Name string
}

// call is a request with what was found out about it.
type call struct {
	Attributes
	groups   []string
	request  *http.Request
	body     []byte
	query    url.Values
	resource *resource
	accepted negotiation.MediaTypeOptions
	output   runtime.SerializerInfo
	// mismatch is the answer to a request that succeeds, but asked for metadata in the wrong form.
	mismatch error
}

// attributesOf parses the path as an API server does. The error is one of the API.
func attributesOf(request *http.Request) (Attributes, error) {
	about := Attributes{UserAgent: request.UserAgent(), Path: request.URL.Path, Verb: strings.ToLower(request.Method)}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		about.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		about.Group, about.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return about, nil
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		about.Namespace = parts[1]
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		} else {
			about.Namespace = "" // the object is the namespace
		}
	}
	about.Resource = parts[0]
	if len(parts) > 1 {
		about.Name = parts[1]
	}
	if len(parts) > 2 {
		about.Subresource = strings.Join(parts[2:], "/")
	}
	return about, about.setVerb(request)
}

// setVerb names the verb of a request for a resource.
func (a *Attributes) setVerb(request *http.Request) error {
	switch request.Method {
	case http.MethodGet:
		a.Verb = "get"
		if a.Name == "" {
			a.Verb = "list"
			if watch := request.URL.Query().Get("watch"); watch == "true" || watch == "1" {
				a.Verb = "watch"
			}
		}
	case http.MethodPost:
		a.Verb = "create"
	case http.MethodPut:
		a.Verb = "update"
	case http.MethodPatch:
		a.Verb = "patch"
	case http.MethodDelete:
		a.Verb = "delete"
	}
	known := resourceOf(a.Group, a.Version, a.Resource)
	switch {
	case known == nil || known.namespaced && a.Namespace == "" && (a.Name != "" || a.Verb == "create") || !known.namespaced && a.Namespace != "":
		return notFoundPath()
	case a.Subresource != "" && !contains(known.subresources, a.Subresource):
		return notFoundPath()
	case a.Verb == "create" && a.Name != "" && a.Subresource == "":
		return methodNotAllowed()
	}
	for _, verb := range known.verbs(a.Subresource) {
		if verb == a.Verb && (a.Name != "" || verb != "delete" && verb != "update" && verb != "patch") {
			return nil
		}
	}
	return methodNotAllowed()
}

// refused is an error of the router, which knows no resources.
func refused(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{},
	}}
}

func methodNotAllowed() error {
	return refused(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
}

func unsupportedMediaType() error {
	return refused(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type")
}

// notFoundPath is the 404 for a path that the server does not serve.
func notFoundPath() error {
	return refused(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

func contains(all []string, one string) bool {
	for _, element := range all {
		if element == one {
			return true
		}
	}
	return false
}

// restrictions let a client ask for the typed form of an object, or for its metadata.
type restrictions struct{}

func (restrictions) AllowsMediaTypeTransform(_, _ string, kind *schema.GroupVersionKind) bool {
	return kind == nil || kind.GroupVersion() == metav1.SchemeGroupVersion && strings.HasPrefix(kind.Kind, "PartialObjectMetadata")
}
func (restrictions) AllowsServerVersion(string) bool  { return false }
func (restrictions) AllowsStreamSchema(s string) bool { return s == "watch" }

// negotiate chooses the encoding of the answer.
func (c *call) negotiate() error {
	accepted, info, err := negotiation.NegotiateOutputMediaType(c.request, scheme.Codecs, restrictions{})
	if err != nil || accepted.Accepted.MediaType == runtime.ContentTypeYAML && c.Verb == "watch" {
		return refused(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "406: Not Acceptable")
	}
	c.accepted, c.output = accepted, info
	if wanted := accepted.Convert; wanted != nil && c.Verb != "delete" && strings.HasSuffix(wanted.Kind, "List") != (c.Verb == "list") {
		c.mismatch = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: "you requested " + wanted.Kind + ", but the object is another",
		}}
	}
	return nil
}

// onlyMetadata says that the client asked for the metadata of objects.
func (c *call) onlyMetadata() bool { return c.accepted.Convert != nil }

// input returns the serializer of the body.
func (c *call) input() (runtime.Serializer, error) {
	info, err := negotiation.NegotiateInputSerializerForMediaType(c.request.Header.Get("Content-Type"), false, scheme.Codecs)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	if info.StrictSerializer != nil && c.query.Get("fieldValidation") == metav1.FieldValidationStrict {
		return info.StrictSerializer, nil
	}
	return info.Serializer, nil
}

// decode reads the object in the body, and fills in the defaults of its kind.
func (c *call) decode() (runtime.Object, error) {
	serializer, err := c.input()
	if err != nil {
		return nil, err
	}
	kind := c.resource.GroupVersionKind
	if c.Subresource == "token" {
		kind = tokenRequestKind
	}
	object, actual, err := serializer.Decode(c.body, &kind, mustMake(kind))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if *actual != kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", actual.GroupVersion(), kind.GroupVersion()))
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	object = stored(object)
	c.defaults(object)
	return object, nil
}

func (c *call) defaults(object runtime.Object) {
	if defaults := c.resource.rules.defaults; defaults != nil && c.Subresource != "token" {
		defaults(object)
	}
}

// deleteOptions reads the body or the query of a deletion.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(c.body) == 0 {
		values := c.query
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&values, options, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return options, nil
	}
	serializer, err := c.input()
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	if _, _, err := serializer.Decode(c.body, &kind, options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

// manager is the name under which a write owns its fields.
func (c *call) manager() string {
	if manager := c.query.Get("fieldManager"); manager != "" {
		return manager
	}
	name, _, _ := strings.Cut(c.UserAgent, "/")
	return name
}

func (c *call) dryRun() bool { return len(c.query["dryRun"]) > 0 }
