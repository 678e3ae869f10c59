package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
)

// serverVersion is the version that the server is checked against.
var serverVersion = version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3", GitTreeState: "clean", Platform: "linux/amd64", Compiler: "gc", GoVersion: "go1.26.0"}

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// aggregated is the content type by which clients ask for all of discovery at once.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// servePath answers what is not about a resource, or returns nil.
func (s *Server) servePath(c *call) *http.Response {
	path := strings.TrimSuffix(c.Path, "/")
	switch path {
	case "/healthz", "/livez", "/readyz":
		s.mu.Lock()
		defer s.mu.Unlock()
		if code := s.health[path]; code != 0 && code != http.StatusOK {
			return Text(code, "text/plain; charset=utf-8", strings.TrimPrefix(path, "/")+" check failed\n")
		}
		return Text(http.StatusOK, "text/plain; charset=utf-8", "ok")
	case "/version":
		return jsonResponse(c, &serverVersion, runtime.ContentTypeJSON)
	case "/api", "/apis":
		if strings.Contains(c.request.Header.Get("Accept"), "as=APIGroupDiscoveryList") {
			return jsonResponse(c, aggregatedGroups(path == "/api"), aggregated)
		}
		if path == "/apis" {
			return jsonResponse(c, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups()}, runtime.ContentTypeJSON)
		}
		return jsonResponse(c, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{}}, runtime.ContentTypeJSON)
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return resourceList(c, schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return resourceList(c, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case len(parts) == 2 && parts[0] == "apis":
		for _, group := range groups() {
			if group.Name == parts[1] {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return jsonResponse(c, &group, runtime.ContentTypeJSON)
			}
		}
	}
	return nil
}

func jsonResponse(c *call, object any, mediaType string) *http.Response {
	encoded, err := marshal(object)
	if err != nil {
		return errorResponse(c.request, apierrors.NewInternalError(err))
	}
	return dataResponse(http.StatusOK, mediaType, encoded)
}

// groupVersions are those served, in a fixed order, the core first.
func groupVersions() []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, resource := range resources {
		if !slices.Contains(all, resource.GroupVersion()) {
			all = append(all, resource.GroupVersion())
		}
	}
	return all
}

func groups() []metav1.APIGroup {
	var all []metav1.APIGroup
	for _, served := range groupVersions() {
		if served.Group != "" {
			preferred := metav1.GroupVersionForDiscovery{GroupVersion: served.String(), Version: served.Version}
			all = append(all, metav1.APIGroup{Name: served.Group, Versions: []metav1.GroupVersionForDiscovery{preferred}, PreferredVersion: preferred})
		}
	}
	return all
}

func resourceList(c *call, wanted schema.GroupVersion) *http.Response {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: wanted.String()}
	for _, resource := range resources {
		if resource.GroupVersion() != wanted {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: resource.name, SingularName: resource.singular, Namespaced: resource.namespaced, Kind: resource.Kind, Verbs: resource.verbs(""), ShortNames: resource.shortNames,
		})
		for _, subresource := range resource.subresources {
			entry := metav1.APIResource{Name: resource.name + "/" + subresource, Namespaced: resource.namespaced, Kind: resource.Kind, Verbs: resource.verbs(subresource)}
			if subresource == "token" {
				entry.Group, entry.Version, entry.Kind = tokenRequestKind.Group, tokenRequestKind.Version, tokenRequestKind.Kind
			}
			list.APIResources = append(list.APIResources, entry)
		}
	}
	if len(list.APIResources) == 0 {
		return errorResponse(c.request, notFoundPath())
	}
	return jsonResponse(c, list, runtime.ContentTypeJSON)
}

func aggregatedGroups(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	for _, wanted := range groupVersions() {
		if (wanted.Group == "") != core {
			continue
		}
		found := apidiscoveryv2.APIVersionDiscovery{Version: wanted.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, resource := range resources {
			if resource.GroupVersion() == wanted {
				found.Resources = append(found.Resources, discovered(resource))
			}
		}
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: wanted.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{found}})
	}
	return list
}

func discovered(resource *resource) apidiscoveryv2.APIResourceDiscovery {
	scope := apidiscoveryv2.ScopeCluster
	if resource.namespaced {
		scope = apidiscoveryv2.ScopeNamespace
	}
	kind := metav1.GroupVersionKind(resource.GroupVersionKind)
	found := apidiscoveryv2.APIResourceDiscovery{
		Resource: resource.name, ResponseKind: &kind, Scope: scope, SingularResource: resource.singular, Verbs: resource.verbs(""), ShortNames: resource.shortNames,
	}
	for _, subresource := range resource.subresources {
		response := kind
		if subresource == "token" {
			response = metav1.GroupVersionKind(tokenRequestKind)
		}
		found.Subresources = append(found.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: subresource, ResponseKind: &response, Verbs: resource.verbs(subresource)})
	}
	return found
}

// special returns what answers a creation that stores nothing.
func (s *Server) special(c *call) func() answer {
	switch {
	case c.Subresource == "token":
		return func() answer { return s.token(c) }
	case c.resource.virtual:
		return func() answer { return s.review(c) }
	}
	return nil
}

// defaultTokenLife is how long a token is valid if its client does not say.
const defaultTokenLife = 3600

// token answers with a token of a service account. The server accepts any identity, so the token says only whose it is.
func (s *Server) token(c *call) answer {
	account, ok := s.table(c.resource).objects[objectKey{c.Namespace, c.Name}]
	if !ok {
		return failed(apierrors.NewNotFound(c.resource.groupResource(), c.Name))
	}
	object, err := c.decode()
	if err != nil {
		return failed(err)
	}
	request, ok := object.(*authenticationv1.TokenRequest)
	if !ok {
		return failed(apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", object)))
	}
	if request.Spec.ExpirationSeconds == nil {
		request.Spec.ExpirationSeconds = new(int64(defaultTokenLife))
	}
	request.Name, request.Namespace, request.UID, request.CreationTimestamp = c.Name, c.Namespace, account.meta.GetUID(), metav1.Now()
	request.Status = authenticationv1.TokenRequestStatus{
		Token:               "system:serviceaccount:" + c.Namespace + ":" + c.Name,
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)),
	}
	return answer{object: request, code: http.StatusCreated}
}

// review says what the client may do, or who it is.
func (s *Server) review(c *call) answer {
	object, err := c.decode()
	if err != nil {
		return failed(err)
	}
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status.Allowed = true
		if about := review.Spec.ResourceAttributes; about != nil && s.options.Authorize != nil {
			review.Status.Allowed = s.options.Authorize(c.Identity, *about)
		}
	case *authenticationv1.SelfSubjectReview:
		review.Status.UserInfo = authenticationv1.UserInfo{Username: c.Identity, Groups: c.groups, UID: string(types.UID(""))}
	}
	return answer{object: object, code: http.StatusCreated}
}
