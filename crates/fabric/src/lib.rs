//! One enum over the fabrics, so that nothing above is generic over the transport.
