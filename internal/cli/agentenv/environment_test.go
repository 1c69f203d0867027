package agentenv

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

// root returns a certificate in PEM.
func root(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// options returns the options of a test, with the given files as the system's roots.
func options(t *testing.T, system []byte, environ ...string) Options {
	t.Helper()
	proxy, err := url.Parse("http://127.0.0.1:8402")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Proxy: proxy, Key: "pk_1", Task: "exec", Environ: environ, Dir: t.TempDir(), SystemRoots: []string{}, SystemWgetrcs: []string{}, NPMConfigs: []string{}}
	if system != nil {
		o.SystemRoots = []string{"/nowhere", file(t, system)}
	}
	return o
}

// made returns an environment as a map.
func made(t *testing.T, o Options) (map[string]string, []string) {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, v := range e.Variables {
		if _, twice := m[v.Name]; twice {
			t.Errorf("%s is set twice", v.Name)
		}
		if !slices.Contains(Names(), v.Name) {
			t.Errorf("%s is not among the names", v.Name)
		}
		m[v.Name] = v.Value
	}
	return m, e.Warnings
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestProxyVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, want string }{
		{"pk_abc-DEF_1.2~3", "http://pk_abc-DEF_1.2~3:exec@127.0.0.1:8402"},
		{"a+b/c=d", "http://a%2Bb%2Fc%3Dd:exec@127.0.0.1:8402"},
		{"a b@:?#%", "http://a%20b%40%3A%3F%23%25:exec@127.0.0.1:8402"},
	} {
		o := options(t, nil)
		o.Key = c.key
		got, _ := made(t, o)
		for _, name := range proxyNames {
			if got[name] != c.want {
				t.Errorf("%s=%s, want %s", name, got[name], c.want)
			}
		}
		u, err := url.Parse(got["HTTP_PROXY"])
		if err != nil || u.User.Username() != c.key {
			t.Errorf("%s came back as %v, %v", c.key, u, err)
		}
	}
	for _, o := range []Options{{}, {Proxy: &url.URL{}, Key: "k", Task: "t"}, {Proxy: &url.URL{Host: "h"}, Task: "t"}, {Proxy: &url.URL{Host: "h"}, Key: "k"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was enough", o)
		}
	}
}

func TestNoProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    string
		warns   bool
	}{
		{nil, "127.0.0.1:8402", false},
		{[]string{"NO_PROXY="}, "127.0.0.1:8402", false},
		{[]string{"NO_PROXY=a.example, .b.example"}, "a.example,.b.example,127.0.0.1:8402", false},
		{[]string{"no_proxy=a.example"}, "a.example,127.0.0.1:8402", false},
		{[]string{"NO_PROXY=a,b", "no_proxy=b,c"}, "a,b,c,127.0.0.1:8402", false},
		{[]string{"NO_PROXY=127.0.0.1:8402,a"}, "127.0.0.1:8402,a", false},
		{[]string{"NO_PROXY=127.0.0.1:84020"}, "127.0.0.1:84020,127.0.0.1:8402", false},
		{[]string{"NO_PROXY=*"}, "*,127.0.0.1:8402", true},
	} {
		got, warnings := made(t, options(t, nil, c.environ...))
		if got["NO_PROXY"] != c.want || got["no_proxy"] != c.want {
			t.Errorf("%q: %q and %q, want %q", c.environ, got["NO_PROXY"], got["no_proxy"], c.want)
		}
		if len(warnings) > 0 != c.warns {
			t.Errorf("%q: warnings %q", c.environ, warnings)
		}
	}
}

func TestWithoutRoot(t *testing.T) {
	t.Parallel()
	got, warnings := made(t, options(t, nil, "SSL_CERT_FILE=/theirs.pem"))
	for _, b := range bundles {
		if v, set := got[b.name]; set {
			t.Errorf("%s=%s although nothing is intercepted", b.name, v)
		}
	}
	if strings.Contains(got[javaOptions], "trustStore") || len(warnings) > 0 {
		t.Errorf("%s, %q", got[javaOptions], warnings)
	}
	if got["NODE_USE_ENV_PROXY"] != "1" {
		t.Error("Node does not heed the proxy")
	}
}

func TestRoots(t *testing.T) {
	t.Parallel()
	ours, system, theirs := root(t, "ours"), root(t, "system"), root(t, "theirs")
	has := func(path string, want ...[]byte) {
		t.Helper()
		got := content(t, path)
		if n := bytes.Count(got, []byte("BEGIN CERTIFICATE")); n != len(want) {
			t.Errorf("%d certificates, want %d: %s", n, len(want), got)
		}
		for _, w := range want {
			if !bytes.Contains(got, w) {
				t.Errorf("%s is not in %s", w, got)
			}
		}
	}

	o := options(t, system)
	o.Root = ours
	got, warnings := made(t, o)
	if len(warnings) > 0 {
		t.Errorf("warnings %q", warnings)
	}
	for _, b := range bundles {
		switch _, set := got[b.name]; {
		case set == b.ifSet:
			t.Errorf("%s: set %t", b.name, set)
		case b.adds:
			has(got[b.name], ours)
		case set:
			has(got[b.name], system, ours)
		}
	}
	info, err := os.Stat(got["SSL_CERT_FILE"])
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}

	// A program in such an environment may start another one. The values must not grow.
	first, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Environ = first.Apply([]string{"HOME=/home/x"})
	second, err := New(o)
	if err != nil || !slices.Equal(first.Variables, second.Variables) || len(second.Warnings) > 0 {
		t.Errorf("nested: %v, want %v; %q, %v", second.Variables, first.Variables, second.Warnings, err)
	}
	left, err := os.ReadDir(o.Dir)
	if err != nil || len(left) != 5 {
		t.Errorf("files %v, %v", left, err)
	}

	// Roots that were set before stay trusted, in the same variables.
	o = options(t, system, "REQUESTS_CA_BUNDLE="+file(t, theirs), "NODE_EXTRA_CA_CERTS="+file(t, theirs), "PIP_CERT=/nowhere.pem",
		"AWS_CA_BUNDLE="+t.TempDir(), "NIX_SSL_CERT_FILE="+file(t, theirs))
	o.Root = ours
	got, warnings = made(t, o)
	has(got["REQUESTS_CA_BUNDLE"], theirs, ours)
	has(got["NODE_EXTRA_CA_CERTS"], theirs, ours)
	has(got["SSL_CERT_FILE"], system, ours)
	has(got["PIP_CERT"], system, ours)
	has(got["AWS_CA_BUNDLE"], system, ours)
	has(got["NIX_SSL_CERT_FILE"], theirs, ours)
	if len(warnings) != 2 || !strings.Contains(warnings[0], "PIP_CERT") || !strings.Contains(warnings[1], "AWS_CA_BUNDLE") {
		t.Errorf("warnings %q", warnings)
	}

	o = options(t, system, "SSL_CERT_FILE="+file(t, theirs))
	o.Root = ours
	got, _ = made(t, o)
	has(got["SSL_CERT_FILE"], theirs, ours)
	has(got["CURL_CA_BUNDLE"], theirs, ours)

	// Without the system's roots, only ours are set, with a warning.
	for _, environ := range [][]string{nil, {"SSL_CERT_FILE=/nowhere.pem"}} {
		o = options(t, nil, environ...)
		o.Root = ours
		got, warnings = made(t, o)
		has(got["SSL_CERT_FILE"], ours)
		if len(warnings) != 1+len(environ) || !strings.Contains(warnings[len(environ)], "SSL_CERT_FILE") {
			t.Errorf("warnings %q", warnings)
		}
	}
}

// A file that was changed is written again.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	o := options(t, nil)
	o.Root = root(t, "ours")
	got, _ := made(t, o)
	path := got["SSL_CERT_FILE"]
	if err := os.WriteFile(path, root(t, "evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ = made(t, o); got["SSL_CERT_FILE"] != path || !bytes.Equal(content(t, path), o.Root) {
		t.Errorf("%s", content(t, path))
	}
}

func TestPrivateFolder(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	good := filepath.Join(base, "good")
	for range 2 {
		if err := makePrivate(good); err != nil {
			t.Error(err)
		}
	}
	open, link := filepath.Join(base, "open"), filepath.Join(base, "link")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link, file(t, nil)} {
		if err := makePrivate(dir); err == nil {
			t.Errorf("%s was taken", dir)
		}
	}
}

func TestJava(t *testing.T) {
	t.Parallel()
	system := root(t, "system")
	o := options(t, append(slices.Clone(system), system...), "JAVA_TOOL_OPTIONS=-Xmx1g -Djavax.net.ssl.trustStore=/theirs",
		"NO_PROXY=.corp.example,10.0.0.0/8,a.example:81")
	o.Root = root(t, "ours")
	o.Dir = filepath.Join(o.Dir, "with space")
	got, warnings := made(t, o)
	java := got[javaOptions]
	for _, part := range []string{
		"-Xmx1g -Djavax.net.ssl.trustStore=/theirs -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8402 ",
		" -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8402 ", " -Dhttp.nonProxyHosts=*.corp.example|a.example ",
		" -Djdk.http.auth.tunneling.disabledSchemes= ", ` "-Djavax.net.ssl.trustStore=` + o.Dir, " -Djavax.net.ssl.trustStoreType=PKCS12",
	} {
		if !strings.Contains(java, part) {
			t.Errorf("%q is not in %q", part, java)
		}
	}
	if strings.Contains(java, "pk_1") {
		t.Errorf("Java prints its options, and the key is in them: %s", java)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], javaOptions) {
		t.Errorf("warnings %q", warnings)
	}
	stores, err := filepath.Glob(filepath.Join(o.Dir, "*.p12"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("%v, %v", stores, err)
	}
	certs, err := pkcs12.DecodeTrustStore(content(t, stores[0]), trustPassword)
	if err != nil || len(certs) != 2 || certs[0].Subject.CommonName != "system" || certs[1].Subject.CommonName != "ours" {
		t.Errorf("%v, %v", certs, err)
	}
	if got, _ := made(t, options(t, nil)); !strings.Contains(got[javaOptions], "-Dhttp.nonProxyHosts= ") {
		t.Errorf("%s", got[javaOptions])
	}
}
