package caddymodule

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A key that resolves to none gets the sentence of REST at the proxy, in the status line too. No key at all gets the
// form of the proxy's URL, readable.
func TestUnknownKeyAtTheProxy(t *testing.T) {
	s := newSite(t)
	s.global = "servers {\n\t\tprotocols h1\n\t\tlistener_wrappers {\n\t\t\tpurser\n\t\t}\n\t}"
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ := adminSite(t, s)
	made := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"leaked"}`)
	if code, text := adminSend(t, socket, "POST", fmt.Sprintf("/purser/keys/%s/revoke", made["id"]), "application/json", `{}`); code != 200 {
		t.Fatal(code, text)
	}
	rest := mustCall(t, 401, "GET", s.url()+"/wallets/me", "pk_of_another_purser", "")
	sentence, _ := rest["error"].(string)
	detail, _ := rest["detail"].(string)
	if sentence != "API key not resolved" || detail == "" {
		t.Fatal(rest)
	}
	const url = "http://<API key>[:<task>]@<host>:<port>"
	for _, c := range []struct{ name, login, line, body, detail string }{
		{"other purser's", basicOf("pk_of_another_purser", ""), sentence + ": " + detail, sentence, detail},
		{"revoked", basicOf(made["key"].(string), "nightly"), sentence + ": " + detail, sentence, detail},
		{"none", "", "This proxy needs an API key: " + url, url, ""},
		{"malformed", "\r\nProxy-Authorization: Basic %%", "This proxy needs an API key: " + url, url, ""},
	} {
		for method, target := range map[string]string{"GET": "http://shop.example/x", "CONNECT": "shop.example:443"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				status, header, text := s.rawly(t, method+" "+target+" HTTP/1.1\r\nHost: shop.example"+c.login+"\r\n\r\n", method)
				if !strings.HasPrefix(status, "407 Proxy Authentication Required; "+c.line) {
					t.Errorf("status line %q", status)
				}
				var body struct{ Error, Reason, Detail string }
				if err := json.Unmarshal([]byte(text), &body); err != nil || !strings.Contains(body.Error, c.body) || body.Detail != c.detail || body.Reason != "proxy-credentials" {
					t.Errorf("%v: %s", err, text)
				}
				if strings.Contains(text, `\u003c`) || strings.Contains(c.body, "<") && !strings.Contains(text, url) {
					t.Errorf("not readable: %s", text)
				}
				if header.Get("Content-Type") != "application/json" || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Proxy-Authenticate") == "" {
					t.Errorf("%v", header)
				}
			})
		}
	}
}

func basicOf(key, task string) string {
	return "\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"+task))
}

// rawly sends a request as it is, and reads the answer.
func (s *site) rawly(t *testing.T, request, method string) (status string, header http.Header, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status, resp.Header, string(body)
}
