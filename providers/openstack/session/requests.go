package session

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// Get asks for a resource by its path and decodes the answer.
func Get(ctx context.Context, client *gophercloud.ServiceClient, answer any, query url.Values, path ...string) error {
	address := client.ServiceURL(path...)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	response, err := client.Get(ctx, address, answer, nil)
	return closing(response, err)
}

// Put changes a resource and decodes the answer. Revision is what the resource must have not to be refused with a conflict, empty for any.
func Put(ctx context.Context, client *gophercloud.ServiceClient, body, answer any, revision string, path ...string) error {
	options := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}
	if revision != "" {
		options.MoreHeaders = map[string]string{"If-Match": "revision_number=" + revision}
	}
	response, err := client.Put(ctx, client.ServiceURL(path...), body, answer, options)
	return closing(response, err)
}

func closing(response *http.Response, err error) error {
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	return err
}
