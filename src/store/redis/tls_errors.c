/*-------------------------------------------------------------------------
 *
 * tls_errors.c
 *	  Why a TLS connection has failed, in words.
 *
 * Text only: nothing in here allocates, raises or touches a connection.  The
 * words are OpenSSL's, of which none has a name, an address or anything of a
 * certificate in it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "store/redis/tls_errors.h"

/* The first byte of each record: its content type. */
#define TLS_FIRST_TYPE		0x14
#define TLS_LAST_TYPE		0x18

static void failed(RedisFailure *f, const char *hint, const char *format,...)
			pg_attribute_printf(3, 4);

static void
failed(RedisFailure *f, const char *hint, const char *format,...)
{
	char		detail[sizeof(f->error.detail)];
	va_list		args;

	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE, hint,
					  "%s", detail);
}

/*
 * certificate_hint --- what to do about a certificate that is not accepted
 */
static const char *
certificate_hint(long verdict)
{
	switch (verdict)
	{
		case X509_V_ERR_CERT_HAS_EXPIRED:
			return gettext_noop("The node needs a new certificate, or the clock of this server is wrong.");
		case X509_V_ERR_CERT_NOT_YET_VALID:
			return gettext_noop("The clock of this server may be wrong, or that where the certificate was made.");
		case X509_V_ERR_HOSTNAME_MISMATCH:
		case X509_V_ERR_IP_ADDRESS_MISMATCH:
			return gettext_noop("The certificate has to name the host in lockredis.url or, if set, lockredis.tls_server_name.");
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
		case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		case X509_V_ERR_CERT_SIGNATURE_FAILURE:
			return gettext_noop("Set lockredis.tls_ca_file to the certificate of the authority that has signed the node's.");
	}
	return NULL;
}

/*
 * alert_of --- the alert that the node has sent, -1 if it is another error
 */
static int
alert_of(unsigned long error)
{
	int			reason = ERR_GET_REASON(error);

	return ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET &&
		reason < SSL_AD_REASON_OFFSET + 256 ? reason - SSL_AD_REASON_OFFSET : -1;
}

/*
 * is_about_our_certificate --- of TLS 1.2 and 1.3; servers differ much
 */
static bool
is_about_our_certificate(int alert)
{
	switch (alert)
	{
		case SSL_AD_BAD_CERTIFICATE:
		case SSL_AD_UNSUPPORTED_CERTIFICATE:
		case SSL_AD_CERTIFICATE_REVOKED:
		case SSL_AD_CERTIFICATE_EXPIRED:
		case SSL_AD_CERTIFICATE_UNKNOWN:
		case SSL_AD_UNKNOWN_CA:
		case SSL_AD_ACCESS_DENIED:
		case SSL_AD_CERTIFICATE_REQUIRED:
		case SSL_AD_HANDSHAKE_FAILURE:
			return true;
	}
	return false;
}

static bool
is_about_versions(unsigned long error)
{
	int			reason = ERR_GET_REASON(error);

	return alert_of(error) == SSL_AD_PROTOCOL_VERSION ||
		(ERR_GET_LIB(error) == ERR_LIB_SSL &&
		 (reason == SSL_R_UNSUPPORTED_PROTOCOL ||
		  reason == SSL_R_VERSION_TOO_LOW));
}

/*
 * not_tls_failure --- what came is no TLS
 */
static void
not_tls_failure(RedisFailure *f, unsigned char first_byte)
{
	const char *hint = gettext_noop("Write redis:// in lockredis.url, or the port where the node expects TLS.");

	if (strchr("-+:$*", first_byte) != NULL)
		failed(f, hint, "The node does not expect TLS on this port: it answers in Redis's protocol.");
	else if (first_byte == 'H' || first_byte == '<')
		failed(f, NULL, "The node's answer is not TLS: it seems to be an HTTP server.");
	else
		failed(f, hint, "The node's answer is not TLS.");
}

/*
 * socket_failure --- the node has ended the connection
 */
static void
socket_failure(RedisFailure *f, const TlsTrouble *trouble)
{
	const char *hint = gettext_noop("The port in lockredis.url may be one without TLS, or no Redis server's.");

	if (trouble->first_byte != 0)
		hint = NULL;
	if (trouble->socket_error == 0)
		failed(f, hint, "The node closed the connection during the TLS handshake.");
	else
		failed(f, hint, "The connection to the node was lost during the TLS handshake: %s.",
			   strerror(trouble->socket_error));
}

void
tls_failure_set(RedisFailure *f, const TlsTrouble *trouble)
{
	const char *words = ERR_reason_error_string(trouble->error);
	int			alert = alert_of(trouble->error);

	if (words == NULL)
		words = "unknown error";
	if (trouble->verdict != X509_V_OK)
		failed(f, certificate_hint(trouble->verdict),
			   "The certificate of the node was not accepted: %s.",
			   X509_verify_cert_error_string(trouble->verdict));
	else if (trouble->error == 0)
		socket_failure(f, trouble);
	else if (trouble->first_byte != 0 &&
			 (trouble->first_byte < TLS_FIRST_TYPE ||
			  trouble->first_byte > TLS_LAST_TYPE))
		not_tls_failure(f, trouble->first_byte);
	else if (trouble->cert_wanted && is_about_our_certificate(alert))
	{
		if (trouble->cert_set)
			failed(f, gettext_noop("Check lockredis.tls_cert_file, and which authority the node trusts."),
				   "The node did not accept the certificate of this server: %s.",
				   words);
		else
			failed(f, gettext_noop("Set lockredis.tls_cert_file and lockredis.tls_key_file."),
				   "The node asks for a certificate of this server, and none is set: %s.",
				   words);
	}
	else if (is_about_versions(trouble->error))
		failed(f, gettext_noop("TLS 1.2 or later is needed."),
			   "The node and this server have no version of TLS in common: %s.",
			   words);
	else if (!trouble->shaken)
		failed(f, NULL, "The TLS handshake has failed: %s.", words);
	else
		redis_failure_set(f, STORE_DOWN, ERRCODE_STORE_FAILED, NULL,
						  "The TLS connection has failed: %s.", words);
}
