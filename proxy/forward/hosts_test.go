package forward

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/purserpay/purser/proxy/proxytest"
)

// A host that DNS cannot have is refused before anything is dialled, in either form.
func TestLongHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("a.", 3000) + "example"
	for method, target := range map[string]string{"GET": "http://" + long + "/x", "CONNECT": long + ":443"} {
		a, _, _ := w.raw(method+" "+target+" HTTP/1.1\nHost: "+long+w.login()+"\n\n", method)
		if p := a.Problem(t); a.StatusCode != 400 || p.Reason != reasonBadRequest || !strings.Contains(p.Error, "host") {
			t.Errorf("%s: %d %s", method, a.StatusCode, a.Text)
		}
	}
}

// A query may have any bytes. The books hold it as text that every store can keep.
func TestQueryBeyondUTF8(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	host := strings.TrimPrefix(s.URL, "http://")
	for query, booked := range map[string]string{"a=\xff\xfe&b=\xc3\xa9": "a=%FF%FE&b=%C3%A9", "\xc3\xa9": "\xc3\xa9"} {
		a, _, _ := w.raw("GET "+s.URL+"/x?"+query+" HTTP/1.1\nHost: "+host+w.login()+"\n\n", "GET")
		p := w.Closed(a.Paid(t))
		if p.RequestURL != s.URL+"/x?"+booked || !utf8.ValidString(p.RequestURL) {
			t.Errorf("booked as %q", p.RequestURL)
		}
	}
}
