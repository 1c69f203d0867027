// Package identity is an OpenID provider for the sandbox and for tests, with one user, one client
// and one button. It implements the parts that the dashboard's sign-in needs: authorization code
// with PKCE, RS256, discovery and userinfo. It is strict, so that a client with an omission fails
// here.
//
// No library does this. Mock providers such as oauth2-proxy/mockoidc show no page, send codes to any
// URL, do without PKCE, and have codes that never expire. Certified ones bring a database or Node, and cannot
// be made to forge tokens. The end-to-end tests sign in with one of those, npm's oidc-provider.
//
// Tests can make it lie; see Faults. It must be reachable from this machine only, because every
// visitor is signed in as the user.
package identity
