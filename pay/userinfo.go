package pay

import "net/url"

// withoutUserinfo returns the request with URLs that have no user:password@, because
// credentials have no place in the books, in identities or in lists.
func (r Request) withoutUserinfo() Request {
	r.URL = withoutUserinfo(r.URL)
	if r.HTTP != nil {
		request := *r.HTTP
		request.URL = withoutUserinfo(request.URL)
		r.HTTP = &request
	}
	return r
}

func withoutUserinfo(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil {
		return raw
	}
	u.User = nil
	return u.String()
}
