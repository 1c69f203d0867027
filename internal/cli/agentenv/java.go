package agentenv

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/purserpay/purser/internal/atomicfile"
)

const (
	javaOptions = "JAVA_TOOL_OPTIONS"
	// trustPassword protects nothing, because a trust store holds only public certificates. Java
	// demands a password; its own stores use this one.
	trustPassword = "changeit"
)

// setJava appends options for Java. The options leave out the key: Java prints them, and it has no
// option for a proxy's credentials.
func (e *Environment) setJava(proxy *url.URL, direct []string, trust, old string) {
	port := cmp.Or(proxy.Port(), "80")
	options := []string{
		"-Dhttp.proxyHost=" + proxy.Hostname(), "-Dhttp.proxyPort=" + port,
		"-Dhttps.proxyHost=" + proxy.Hostname(), "-Dhttps.proxyPort=" + port,
		"-Dhttp.nonProxyHosts=" + strings.Join(javaHosts(direct, proxy.Host), "|"),
		// Unless this is empty, Java does not send Basic credentials with CONNECT.
		"-Djdk.http.auth.tunneling.disabledSchemes=",
	}
	if trust != "" {
		if strings.Contains(old, "-Djavax.net.ssl.trustStore=") && !strings.Contains(old, trust) {
			e.warn(javaOptions + " names a trust store, which is replaced by one with the system's roots and purser's")
		}
		options = append(options, "-Djavax.net.ssl.trustStore="+trust, "-Djavax.net.ssl.trustStoreType=PKCS12",
			"-Djavax.net.ssl.trustStorePassword="+trustPassword)
	}
	for i, o := range options {
		options[i] = javaQuote(o)
	}
	if added := strings.Join(options, " "); !strings.Contains(old, added) {
		old = strings.TrimPrefix(old+" "+added, " ")
	}
	e.set(javaOptions, old)
}

// javaHosts converts entries of NO_PROXY for Java: names and addresses with "*" at one end, without
// ports. It leaves out purser's own address. Without its port the entry would exclude the whole
// host, and purser serves its API to proxy clients too. With an empty list Java sends all requests
// to the proxy, even those to loopback.
func javaHosts(direct []string, own string) []string {
	var hosts []string
	for _, entry := range direct {
		if entry == own || strings.Contains(entry, "/") { // Java has no networks
			continue
		}
		if host, _, err := net.SplitHostPort(entry); err == nil {
			entry = host
		}
		if strings.HasPrefix(entry, ".") {
			entry = "*" + entry
		}
		hosts = append(hosts, entry)
	}
	return hosts
}

// javaQuote quotes one option for JAVA_TOOL_OPTIONS. Java splits the variable at white space
// outside quotes, and knows no escapes.
func javaQuote(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\"'"):
		return s
	case !strings.Contains(s, `"`):
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// trustStore writes a trust store for Java with the certificates of a bundle, and returns its path.
func (f files) trustStore(bundle []byte) (string, error) {
	// The file is named after the bundle, because encoding the same certificates twice gives
	// different bytes.
	path := f.path("trust", ".p12", bundle)
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	content, err := pkcs12.Modern.EncodeTrustStoreEntries(entries(bundle), trustPassword)
	if err != nil {
		return "", fmt.Errorf("making a trust store for Java: %w", err)
	}
	return path, atomicfile.Write(path, content, fileMode)
}

// entries returns the readable certificates of a bundle. Each gets its own name, because Java keeps
// only one entry for each name.
func entries(bundle []byte) []pkcs12.TrustStoreEntry {
	var all []pkcs12.TrustStoreEntry
	seen := map[string]bool{}
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		name := fmt.Sprintf("%x", sha256.Sum256(block.Bytes))
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && !seen[name] {
			seen[name] = true
			all = append(all, pkcs12.TrustStoreEntry{Cert: c, FriendlyName: name})
		}
	}
}
