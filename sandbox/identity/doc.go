// Package identity is an OpenID provider for the sandbox and for tests, with one user, one client
// and one button. It implements the parts that the dashboard's sign-in needs: authorization code
// with PKCE, RS256, discovery and userinfo. It is strict, so that a client with an omission fails
// here.
//
// Tests can make it lie; see Faults. It must be reachable from this machine only, because every
// visitor is signed in as the user.
package identity
