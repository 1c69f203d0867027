package agentenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// bundles lists the variables that name files of root certificates.
var bundles = []struct {
	name  string
	adds  bool // its roots are added to the program's own, and do not replace them
	ifSet bool // changed only when it is set already, because it wins over SSL_CERT_FILE
}{
	{name: "SSL_CERT_FILE"}, // OpenSSL, Python, Ruby, Go, curl on some systems
	{name: "REQUESTS_CA_BUNDLE"},
	{name: "CURL_CA_BUNDLE"},
	{name: "GIT_SSL_CAINFO"},
	{name: "PIP_CERT"},
	{name: "AWS_CA_BUNDLE"},
	{name: "CARGO_HTTP_CAINFO"},
	{name: "NODE_EXTRA_CA_CERTS", adds: true},
	{name: "DENO_CERT", adds: true},
	{name: "NIX_SSL_CERT_FILE", ifSet: true},
	{name: "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", ifSet: true},
	{name: "HTTPLIB2_CA_CERTS", ifSet: true},
}

// systemRoots lists the files in which systems keep their roots.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // macOS, OpenBSD, Alpine
	"/usr/local/etc/ssl/cert.pem",                       // FreeBSD
	"/usr/local/share/certs/ca-root-nss.crt",            // FreeBSD
}

const maxBundle = 16 << 20 // bytes; a file of roots usually has 250 KB

// setRoots sets the certificate variables. Each names a file with the roots that the program would
// otherwise trust, and purser's root. It returns the path of Java's trust store with all of them,
// or "".
func (e *Environment) setRoots(o Options, old map[string]string) (trust string, err error) {
	if len(o.Root) == 0 {
		return "", nil
	}
	base := e.baseRoots(old["SSL_CERT_FILE"], o.SystemRoots)
	files, err := openFiles(o.Dir)
	if err != nil {
		return "", err
	}
	for _, b := range bundles {
		path := old[b.name]
		if b.ifSet && path == "" {
			continue
		}
		content := base
		if b.adds {
			content = nil
		}
		if path != "" && b.name != "SSL_CERT_FILE" {
			if existing, err := readBundle(path); err == nil {
				content = existing
			} else {
				e.warn(fmt.Sprintf("%s is replaced, because its file is not readable: %v", b.name, err))
			}
		}
		if path, err = files.write("roots", ".pem", addRoot(content, o.Root)); err != nil {
			return "", err
		}
		e.set(b.name, path)
	}
	if err := errors.Join(
		e.setWget(files, o, old, base), e.setPHP(files, e.value("SSL_CERT_FILE"), old[phpVariable]), e.setNPM(files, o, old),
	); err != nil {
		return "", err
	}
	return files.trustStore(addRoot(base, o.Root))
}

// baseRoots returns the roots that a program trusts without purser: the file of SSL_CERT_FILE, or
// else the system's roots.
func (e *Environment) baseRoots(own string, places []string) []byte {
	if own != "" {
		content, err := readBundle(own)
		if err == nil {
			return content
		}
		e.warn(fmt.Sprintf("SSL_CERT_FILE is replaced, because its file is not readable: %v", err))
	}
	if places == nil {
		places = systemRoots
	}
	for _, path := range places {
		if content, err := readBundle(path); err == nil {
			return content
		}
	}
	e.warn("the system's root certificates were not found: hosts that purser does not intercept will not be trusted; " +
		"set SSL_CERT_FILE to a file with them")
	return nil
}

func readBundle(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxBundle:
		return nil, fmt.Errorf("%s is not a file of certificates", path)
	}
	return os.ReadFile(path)
}

// addRoot adds a root to a bundle. A program that already runs in such an environment has it, and
// the bundle stays as it is.
func addRoot(bundle, root []byte) []byte {
	bundle, root = bytes.TrimSpace(bundle), bytes.TrimSpace(root)
	var all []byte
	if len(bundle) > 0 {
		all = append(append(all, bundle...), '\n')
	}
	if !bytes.Contains(bundle, root) {
		all = append(append(all, root...), '\n')
	}
	return all
}
