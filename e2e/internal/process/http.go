package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answer is an HTTP answer that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask makes one request and reads the answer to its end, so that the connection can be used again.
// header holds names and values in turn. A body is JSON.
func Ask(ctx context.Context, by *http.Client, method, url, body string, header ...string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := by.Do(r)
	if err != nil {
		return Answer{}, err
	}
	text, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, string(text)}, errors.Join(err, res.Body.Close())
}

// Decode reads an answer of the expected status, which is JSON.
func (a Answer) Decode(status int, into any) error {
	if a.Status != status {
		return fmt.Errorf("status %d, want %d\n%v\n%s", a.Status, status, a.Header, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		return fmt.Errorf("%w in %s", err, a.Body)
	}
	return nil
}

// Client returns a client that opens a connection for each request. It uses a proxy, if one is
// given, and trusts these roots alone, if there are any.
func Client(proxy *url.URL, roots *x509.CertPool) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// Roots returns a pool with the certificates of a PEM text.
func Roots(text string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("no certificate in %q", text)
	}
	return pool, nil
}
