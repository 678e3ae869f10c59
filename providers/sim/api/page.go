package api

// Page is one page of a list.
type Page[T any] struct {
	// Items are the elements of this page. The field is always there, also when it is empty.
	Items []T `json:"items"`
	// NextPageToken asks for the next page; empty on the last one.
	NextPageToken string `json:"nextPageToken,omitempty"`
	// TotalCount is the number of elements on all pages. It is the same on every page of a list and always there: a
	// client that got fewer has not got the list.
	TotalCount *int `json:"totalCount"`
}
